// SPDX-License-Identifier: Apache-2.0
// Of OVN and Open vSwitch below an agent: their databases, the cluster of these, and the flows on a node.

import { type KnownError, oneOf } from '../../known/known-error.ts'

/** Errors of OVN's databases and of Open vSwitch's flows. */
export const ovnErrors: readonly KnownError[] = [
  {
    id: 'ovn-raft',
    pattern: oneOf(
      /misrouted message \(addressed to \w+ but we're \w+\)|(?:shows|indicates) (?:that the )?server (?:has )?left the cluster/,
      /wrong cluster \S+ \(expected \S+\)|\braft\|(?:WARN|ERR)\|(?![^\n]{0,160}No space left)[^\n]{1,160}|raft_is_connected: false/,
      /message with unexpected server ID \S+|\bov[ns][^\n]{0,200}\binconsistent data\b/,
      /(?:nb|sb) health check failed\b[^\n]{0,80}|clustered database server has stale data/,
      /clustered database server is disconnected from cluster|database has missing or zero cluster ID/,
      /(?:OVN|libovsdb|ovsdb|[ns]bdb|:664[12])\b[^\n]{0,300}\bendpoint is not leader\b/,
      /ovn[ns]b_db\.db: (?:record \d+|has not joined the cluster)[^\n]{0,120}/,
      /ovs[a-z-]*: ovsdb error: [^\n]{0,80}(?:raft|cluster)[^\n]{0,80}/,
      /error reading record \d+ from \S{1,40} log\b[^\n]{0,120}|\b[ns]b raft check failed|raft header (?:cluster ID|file) \S+ (?:does not match|has a missing)|failed to rejoin OVN_\w+ cluster|has not yet joined and connected to its cluster/,
    ),
    who: "ovsdb-server, of OVN's databases",
    meaning: "the servers of OVN's northbound or southbound database do not agree on who belongs to their cluster",
    causes: [
      'a server was removed or made anew, and the others still have its former id under the same address',
      'a server has the database file of an earlier cluster, or a damaged one',
      'most of the servers are down or do not reach each other (6643, 6644): there is no leader',
    ],
    look: [
      'kubectl get pods -A -o wide | grep -i ovn',
      'ovs-appctl -t /var/run/ovn/ovnnb_db.ctl cluster/status OVN_Northbound',
      'ovs-appctl -t /var/run/ovn/ovnsb_db.ctl cluster/status OVN_Southbound',
    ],
    cure:
      'bring the other servers up first. Then on the leader take the former id out (cluster/kick), move the database ' +
      'file of the odd one away, and restart its pod: it joins anew',
  },
  {
    id: 'ovn-schema',
    pattern: oneOf(
      /database \w+ validation error \(\d+\)[^\n]{0,200}|database model contains (?:a )?(?:client index|model) for \w+[^\n]{0,120}/,
      /Mapper Error\. Object type \S+ contains field|: Column does not exist in schema/,
      /(?:OVN_\w+|Open_vSwitch|hardware_vtep) database lacks \w+ (?:table|column)[^\n]{0,40}/,
      /incompatible northd version|ovn-[ns]bctl: \w+ does not contain a column whose name matches/,
      /error parsing column \w{1,40} in row \S{1,40} in table \w{1,40}: [^\n]{1,200}|\blflow\|WARN\|error parsing actions "[^\n]{1,240}/,
      /(?:ovn-[ns]bctl|ovs-vsctl|ovsdb-client): [^\n]{0,80}(?:no (?:table|column) named|unknown (?:table|column))[^\n]{0,80}/,
    ),
    who: 'an agent of OVN, of its database',
    meaning: 'the database lacks what the program wants, or has what it does not know: they are of different releases',
    causes: [
      'an update has not reached the pod of the databases yet, or stopped halfway',
      '"error parsing": the new northd writes flows and values that ovn-controller of the older release, on the ' +
        'nodes, does not know yet',
      'the database runs from an older image, or its file was not converted to the new schema',
      'the agent is newer than the Open vSwitch that the node itself runs',
    ],
    look: [
      'kubectl get pods -A -o wide | grep -i ovn',
      'ovsdb-client get-schema-version unix:/var/run/ovn/ovnnb_db.sock OVN_Northbound',
      'ovs-vsctl --version; ovn-nbctl --version',
    ],
    cure: 'finish the update: databases, then northd, then the agents of the nodes; their restart converts the file',
  },
  {
    id: 'ovn-db-not-ready',
    pattern: oneOf(
      /(?:Failed to retrieve cluster\/status info[^\n]{0,60}|\bstderr: {0,3}['"]?)?\\?"[a-z][\w/-]{2,60}\\?" is not a valid command \(?use \\?"?list-commands\b[^\n]{0,160}/,
      /request specifies unknown database OVN_\w{2,40}|\bov[ns][^\n]{0,160}\bunknown database\b[^\n]{0,60}|no available ovsdb database: OVN_\w{2,40}/,
      /ovn db sock files weren't found in [^\n]{1,120}|Failed to init (?:properties for all databases|[ns]bdb properties: [^\n]{1,160})|OVN (?:db|[ns]bdb) schema versions? can't be fetched: [^\n]{1,160}/,
    ),
    who: 'ovsdb-server or ovs-vswitchd, asked by an agent of OVN or for its metrics',
    meaning: 'the server answers, and does not know the command or the database that it is asked for (yet)',
    causes: [
      'it has just started: it knows cluster/status, and its databases, once it has opened their files: harmless then',
      'the database is a single one, which has no state of a cluster (one replica, or one for each node)',
      'it is older than the program that asks',
    ],
    look: [
      'kubectl get pods -A -o wide | grep -i ovn',
      'ovn-appctl -t /var/run/ovn/ovnsb_db.ctl list-commands | grep -e cluster -e list-dbs',
      'ovsdb-tool db-is-standalone /etc/ovn/ovnsb_db.db && echo "no cluster"',
    ],
    cure:
      'nothing where it ends within a minute of the start, or where the database is a single one: pods do not need ' +
      'it. Else look why the pod of the databases does not come up, or bring both to one release',
  },
  {
    id: 'ovn-db-conflict',
    pattern: oneOf(
      /ovn-(?:[ns]bctl|ic-[ns]bctl): [^\n]{1,120}\b(?:already exists|duplicate)\b|already has encap ip '[^']*' and/,
      /Transaction causes multiple rows in [^\n]{1,40} table to have identical values[^\n]{0,120}/,
      /(?:\bov[ns]|ovsdb|OVN_|[ns]bdb|Logical_(?:Switch|Router))[^\n]{0,300}(?:referential integrity|constraint) violation\b[^\n]{0,80}/,
      /(?:referential integrity|constraint) violation\b[^\n]{0,200}(?:"?(?:Encap|Chassis(?:_Private)?)"? table|Logical_(?:Switch|Router)|Port_Binding|\bov[ns]\b|ovsdb)/,
      /cannot delete \w+ row \S+ because of \d+ remaining|database contains duplicate (?:chassis name|port binding)/,
      /is now with a new chassis ID\. Its stale chassis|\bErrorMismatchChassis\b/,
    ),
    who: 'OVN, of its databases',
    meaning: "OVN's database refuses a change: there is a row of that name or address already, or one that needs it",
    causes: [
      'a row is left from before: of a network, a node or a pod that was removed while the agent was down',
      '"Encap", "Chassis": the node came back under another id, and its former one has the same address still',
      'two agents write the same rows: two control planes, or two clusters on one database',
    ],
    look: ['ovn-nbctl show', 'ovn-sbctl show', 'ovs-vsctl get open_vswitch . external_ids'],
    cure:
      'compare the row that the message names with what there is now. A chassis of a node that is gone: ovn-sbctl ' +
      'chassis-del ID; else restart the control plane, which writes its rows anew',
    // Rows of Open vSwitch itself.
    unless: /OVS (?:port|interface|bridge)\b|multiple rows in "?(?:Interface|Port|Bridge)"? table/i,
  },
  {
    id: 'ovn-certificate',
    pattern: oneOf(
      /(?:(?:tcp|ssl):\S{1,60}:664\d|stream_ssl)(?![^\n]{0,200}https:)[^\n]{0,200}(?:x509: |remote error: tls: )[^\n]{1,120}/,
      /stream_ssl\|(?:WARN|ERR)\|[^\n]{0,160}(?:certificate|unknown ca|alert|private key)[^\n]{0,80}/,
      /(?:Private key|Certificate|CA certificate) must be configured to use SSL/,
      /Bootstrapping \S+ CA certificate failed|(?:private key|(?<!kubernetes CA )certificate) file \S*ovn\S* not found/,
    ),
    who: "OVN's programs, of each other",
    meaning: "a program of OVN and its database do not trust each other's certificate, so they have no connection",
    causes: [
      'the certificates were made anew, and not every pod was restarted since',
      'a certificate expired, or names another address; the clock of the node is wrong',
    ],
    look: [
      'kubectl get secrets -A | grep -i ovn; timedatectl',
      'ovs-vsctl get-ssl',
      'openssl x509 -noout -issuer -dates -in FILE',
    ],
    cure: 'make the certificates anew from one CA, and restart the databases, then the agents of the nodes',
    innermost: true,
  },
  {
    id: 'ovs-database-damaged',
    pattern: oneOf(
      /\bov(?:s|n)[^\n]{0,160}\.db: (?:cannot identify file type|unexpected file format|parse error at offset|unexpected end of file)[^\n]{0,120}/,
      /\.db: \d+ bytes starting at offset \d+ (?:have SHA-1 hash|are not)[^\n]{0,120}|ovsdb_log\|WARN\|(?![^\n]{0,120}No space left)[^\n]{1,160}/,
    ),
    who: 'ovsdb-server',
    meaning: 'the file of a database of Open vSwitch or OVN is damaged, so ovsdb-server does not start with it',
    causes: [
      'the machine lost power, or its disk was full, while the file was written',
      'the file is of another kind: one of a cluster where a plain one is wanted, or from a newer release',
    ],
    look: ['ls -l /etc/openvswitch/conf.db /etc/ovn/*.db', 'df -h /etc; dmesg | grep -i "i/o error" | tail'],
    cure:
      'move the file away and start Open vSwitch again: it makes a new conf.db, and the agent of the network fills ' +
      'it. One of an OVN cluster joins anew; of a single OVN database take the backup',
  },
  {
    id: 'openflow-refused',
    pattern: oneOf(
      /Received (?:OpenFlow ?(?:1\.\d )?|Vendor )error(?: msg)?:[^\n]{0,160}|OFPT_ERROR \(OF1\.\d\)[^\n]{0,120}|OpenFlow error: OFP[^\n]{0,160}/,
      /\bOFP(?:BRC|BAC|BIC|BMC|FMFC|GMFC|MMFC|TFFC|BPC|BFC|RRFC|BDC)_[A-Z_]+\b/,
      /bundle reply is (?:canceled|timeout)|BundleControlMessage reply message accept timeout|unsupported bundle error/,
      /failed to connect to OpenFlow switch after|required OVS DP feature '[^']*' (?:is not supported|support is unknown)|OFSwitch is disconnected/,
      /found OVS \S+ need \S+ or later/,
    ),
    who: 'Open vSwitch, to the agent of a network',
    meaning: 'Open vSwitch of this node refused a flow, a group or a meter that the agent wants, or broke off',
    causes: [
      'Open vSwitch, or its kernel module, is older than the agent: it does not know the action, field or meter',
      'ovs-vswitchd was restarted in that moment: the agent writes its flows again by itself',
      'the bridge has the flows of two programs',
    ],
    look: ['ovs-vsctl --version; ovs-vsctl show', 'tail -n 30 /var/log/openvswitch/ovs-vswitchd.log'],
    cure: 'update Open vSwitch (and the kernel) to what the release of the agent asks for; then restart the agent',
  },
]
