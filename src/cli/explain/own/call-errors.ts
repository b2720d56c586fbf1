// SPDX-License-Identifier: Apache-2.0
// Errors about the call itself: its environment, its standard input, its time, and the commands for people.

import type { SomeErrorTexts } from './error-texts.ts'

export const callErrors = {
  'version-unsupported': {
    cause: 'cniVersion is none that trestle speaks',
    cure: 'use a version that `trestle version` lists',
  },
  'verb-needs-newer-version': {
    cause: 'CHECK came with CNI 0.4.0, GC and STATUS with 1.1.0, and cniVersion is older',
    cure: 'raise cniVersion to what every plugin of the list speaks: `trestle lint` says which',
  },
  'variable-missing': {
    cause: 'the caller did not set a CNI_* variable that the verb needs',
    cure: 'the caller has to set it: CNI specification, section 3',
  },
  'variable-invalid': {
    cause: 'a CNI_* variable has a value that cannot be used, like an interface name of more than 15 bytes',
    cure: 'the caller has to change it; `details` says what would do',
  },
  'verb-unknown': {
    cause: 'CNI_COMMAND is none of the verbs of the specification',
    cure: 'use ADD, DEL, CHECK, GC, STATUS or VERSION',
  },
  'cni-args-invalid': {
    cause: 'IP, GATEWAY or MAC in CNI_ARGS is no address',
    cure: 'correct what puts it there: an annotation of the pod, or an option of the runtime',
  },
  'word-unsafe': {
    cause: 'a name or a path has characters that ip(8) would read as something else',
    cure: 'use printable ASCII without #, backslash, or both kinds of quotes',
  },
  'stdin-unreadable': {
    cause: 'the read of standard input was refused',
    cure: 'the caller has to give a file or a pipe that can be read',
  },
  'stdin-not-closed': {
    cause: 'the caller wrote the configuration and left its end of the pipe open',
    cure: 'the caller has to close it; by hand, end the input with Ctrl-D or use < FILE',
  },
  'stdin-too-long': {
    cause: 'the configuration with prevResult is longer than any real one',
    cure: 'see what the runtime adds to it: prevResult, or a list of attachments',
  },
  'not-json': {
    cause: 'the configuration is not JSON: a comma too many, a comment, a file cut short',
    cure: 'the message has line and column; `trestle lint FILE` shows the place',
  },
  'not-an-object': {
    cause: 'the configuration is JSON, and not one object',
    cure: 'put it in { }',
  },
  'json-too-large': {
    cause: 'the configuration has more values, or is nested deeper, than any real one',
    cure: 'see what generates it',
  },
  'version-invalid': {
    cause: 'cniVersion is not text, or no version',
    cure: 'use one like "1.0.0", in quotes',
  },
  'call-interrupted': {
    cause: 'the process got SIGTERM or SIGINT: the runtime ended, or gave up waiting',
    cure: 'nothing to do: what ADD had made was taken back, and the runtime tries again',
  },
  'internal-error': {
    cause: 'a defect in trestle',
    cure: 'report it with `details`, the configuration and the output of `trestle version`',
  },
  'input-unreadable': {
    cause: 'the file that a command was given cannot be read',
    cure: 'name a file that is there, or run the command as root',
  },
  'output-unwritable': {
    cause: 'standard output cannot be written: its disk is full, or it is closed',
    cure: 'write elsewhere, or make room',
  },
  'needs-root': {
    cause: 'the command changes the network, or reads what only root may read',
    cure: 'run it with sudo',
  },
  'try-not-possible': {
    cause: '`trestle try` could not make its private namespaces, or did not come to an end in them',
    cure: '`details` has the reason: often a container without the capabilities, or a kernel without namespaces',
  },
  'listener-not-started': {
    cause: '`trestle try` could not listen in one of its namespaces',
    cure: 'try again; if it stays, report it',
  },
  'mode-not-adopted': {
    cause: '`trestle adopt` takes interfaces over, and the mode of the configuration makes none',
    cure: 'use a configuration of mode bridge or ptp, or leave the pods as they are',
  },
  'list-invalid': {
    cause: 'the file is JSON, and no network configuration: a key of the list is missing or wrong',
    cure: '`trestle lint FILE` shows every place',
  },
  'list-without-trestle': {
    cause: 'no plugin of the list has the type trestle',
    cure: 'use a list with trestle, or `trestle convert` for one of the upstream plugins',
  },
  'list-not-convertible': {
    cause: 'the list has no plugin that trestle replaces, or has trestle already',
    cure:
      'keep it as it is; converted are bridge, ptp and macvlan, and behind any plugin portmap, firewall, bandwidth, ' +
      'tuning, sbr',
  },
  'runtime-silent': {
    cause: 'the runtime does not answer on its socket',
    cure: 'name the socket of a runtime that runs, or use --no-runtime',
  },
} as const satisfies SomeErrorTexts
