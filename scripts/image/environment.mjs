// SPDX-License-Identifier: Apache-2.0
// The agent's environment in its image.

/**
 * glibc keeps what is freed for the next time (mallopt(3)); the agent's next time is minutes away, and 6 MB. With its
 * usual padding it depends on the order of the pieces whether they are given back.
 */
export const allocatorSettings = [
  'MALLOC_ARENA_MAX=1',
  'MALLOC_MMAP_THRESHOLD_=65536',
  'MALLOC_TOP_PAD_=65536',
  'MALLOC_TRIM_THRESHOLD_=65536',
]
