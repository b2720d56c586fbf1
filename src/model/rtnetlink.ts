// SPDX-License-Identifier: Apache-2.0
// Numbers of routing (include/uapi/linux/rtnetlink.h).

/** RT_TABLE_MAIN. */
export const mainTable = 254

/** RT_SCOPE_LINK. */
export const linkScope = 253
