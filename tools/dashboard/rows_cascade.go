package dashboard

func cascades() row {
	return row{"Cascades (ebb-controller)", []panel{
		{kind: figure, w: 4, h: 4, unit: "short", title: "Leaders", steps: []step{{0, "red"}, {1, "green"}, {2, "orange"}}, queries: []query{{`sum(ebb_controller_leader)`, ""}},
			description: "Exactly one instance acts; the other waits for its Lease. 0 for longer than a change of leaders takes (seconds) means that nothing is collected."},
		{kind: figure, w: 4, h: 4, unit: "none", title: "Brake", steps: goodBelow, words: map[string]string{"0": "off", "1": "ON"}, queries: []query{{`max(ebb_controller_braked)`, ""}},
			description: "On after more deletions than brake.deletions allows within brake.window. Nothing more is deleted until a person has read /decisions and said so: POST /control/resume on the admin socket."},
		{kind: figure, w: 4, h: 4, unit: "none", title: "Pause", steps: []step{{0, "green"}, {1, "orange"}}, words: map[string]string{"0": "no", "1": "PAUSED"}, queries: []query{{`max(ebb_controller_paused)`, ""}},
			description: "Paused by hand or by the configuration: nothing is sent. Dependents of deleted owners stay meanwhile."},
		{kind: figure, w: 4, h: 4, unit: "short", title: "Waiting to be looked at", queries: []query{{`sum(ebb_controller_queue_length)`, ""}},
			description: "Objects whose turn has not come. A large deletion makes it thousands for seconds; what matters is that it falls."},
		{kind: figure, w: 4, h: 4, unit: "short", title: "Owners that wait", queries: []query{{`sum(ebb_controller_owners_waiting)`, ""}},
			description: "Deleted with --cascade=foreground or orphan, and still there: until their dependents are gone, or orphaned. Some for seconds is normal; the same number for an hour means that something holds them. /explain says what."},
		{kind: figure, w: 4, h: 4, unit: "short", title: "Types not read", steps: goodBelow, queries: []query{{`sum(ebb_controller_types{state=~"listing|unreadable"})`, ""}},
			description: "Types of objects that are not, or no longer, known in full. Owners of such types count as unknown: nothing is deleted because of them. /readyz?verbose names them."},
		{kind: lines, w: 12, h: 8, unit: "ops", title: "What was asked for, and how it went", queries: []query{{`sum by (verb, result) (rate(ebb_controller_actions_total[$__rate_interval])) > 0`, "{{verb}}: {{result}}"}},
			description: "Deletions and patches a second. done and gone are good ends; conflict: the object had changed, and is looked at again. forbidden: a right lacks. observed: mode observe, nothing was sent. excluded, paused, braked: the door let it not through."},
		{kind: bars, w: 12, h: 8, unit: "short", stacked: true, title: "Objects deleted, by type", queries: []query{{`topk(10, sum by (type) (increase(ebb_controller_deletions_total[$__rate_interval]))) > 0`, "{{type}}"}},
			description: "What lost its owners and went. A type that you do not expect here is worth a look at /decisions: it has the owner of each."},
		{kind: lines, w: 12, h: 8, unit: "short", title: "Stale Nodes, by why they are there", queries: []query{{`sum by (reason) (ebb_controller_collector_findings{collector="nodes"}) > 0`, "{{reason}}"}},
			description: "Nodes that have given no sign of life for days, while the collector of Nodes is on. not_in_inventory: it goes next. inventory_…: the inventory of machines is not believed. All others need a person: docs/collectors.md has each."},
		{kind: lines, w: 12, h: 8, unit: "s", title: "Age of the inventory of machines", queries: []query{{`time() - max(ebb_controller_inventory_time_seconds > 0)`, "age"}},
			description: "Since the last inventory that could be read was made, by its own word. It is read only when a Node is due, so that an old one says nothing by itself."},
	}}
}

func cascadeHealth() row {
	return row{"How well cascades go", []panel{
		{kind: lines, w: 8, h: 8, unit: "s", logarithmic: true, title: "Requests take, 99 %", queries: []query{{`histogram_quantile(0.99, sum by (verb, le) (rate(ebb_controller_request_seconds_bucket[$__rate_interval])))`, "{{verb}}"}},
			description: "How long the API server takes over one in a hundred. Milliseconds are normal; seconds mean admission webhooks, or an API server or etcd under load. The controller then sends fewer at once."},
		{kind: lines, w: 8, h: 8, unit: "short", title: "Requests at once", queries: []query{
			{`sum(ebb_controller_requests_in_flight)`, "on their way"}, {`sum(ebb_controller_concurrency_limit)`, "allowed at present"},
			{`sum(rate(ebb_controller_throttled_total[$__rate_interval]))`, "429 a second"},
		},
			description: "The limit rises while answers come fast, and halves at a 429 or when they become slow. Pinned to 1: the API server has no room, or the FlowSchema is missing."},
		{kind: lines, w: 8, h: 8, unit: "short", title: "Waiting", queries: []query{{`sum(ebb_controller_queue_length)`, "to be looked at"}, {`sum by (finalizer) (ebb_controller_owners_waiting)`, "owners: {{finalizer}}"},
			{`sum by (reason) (ebb_controller_owner_references_unresolved)`, "references: {{reason}}"}},
			description: "The queue, and deleted owners that have a collector's finalizer. Both come and go with deletions; a level that stays is what to ask /explain about. References that nobody can resolve stay until somebody mends them: ebb orphans names them."},
		{kind: lines, w: 8, h: 8, unit: "short", title: "Objects tracked", queries: []query{{`topk(10, sum by (type) (ebb_controller_objects)) > 0`, "{{type}}"}, {`sum(ebb_controller_graph_nodes)`, "all"}},
			description: "Only metadata is kept, some 200 bytes for each. Owners that were never seen count, too."},
		{kind: lines, w: 8, h: 8, unit: "short", stacked: true, title: "Types by state", queries: []query{{`sum by (state) (ebb_controller_types)`, "{{state}}"}},
			description: "synced: listed and watched. listing: at the start, or after a broken watch. unreadable: /readyz?verbose says why. unwatched: further versions of a type, read only where references name them."},
		{kind: bars, w: 8, h: 8, unit: "short", stacked: true, title: "The other collectors: deleted, or would have been", queries: []query{
			{`sum by (collector, result) (increase(ebb_controller_actions_total{collector!="owners", verb="delete", result=~"done|observed"}[$__rate_interval])) > 0`, "{{collector}}: {{result}}"},
			{`sum by (collector) (ebb_controller_collector_objects)`, "{{collector}}: kept"},
		},
			description: "Pods, Jobs, certificate requests, Leases. done went; observed would have, in mode observe: ebb control collectors names what is due. kept: how many objects each that is on knows."},
		{kind: lines, w: 8, h: 8, unit: "short", title: "Volumes by what is made of them", queries: []query{
			{`sum by (reason) (ebb_controller_collector_findings{collector="volumes"}) > 0`, "{{reason}}"},
			{`sum by (driver, result) (increase(ebb_controller_volume_calls_total[1h])) > 0`, "{{driver}}: {{result}}, an hour"},
		},
			description: "Of the collector of volumes, if it is on: PersistentVolumes, VolumeAttachments and CSINodes by the reason why they go or stay (docs/collectors.md), and what came of the calls of CSI drivers."},
		{kind: lines, w: 8, h: 8, unit: "short", title: "The journal of orphaned owners", queries: []query{
			{`sum(ebb_controller_orphan_journal_entries)`, "owners in it"},
			{`max(ebb_controller_orphaning_held)`, "1: it cannot be written"},
			{`max(ebb_controller_orphan_journal_holders)`, "types that keep what is old"},
		},
			description: "Who is deleted with orphan stands here for a day before its finalizer goes, so that a dependent that is seen late loses its reference and not its life. While it cannot be written, owners wait (event OrphaningHeld)."},
	}}
}

func probes() row {
	return row{"Is ebb itself well?", []panel{
		{kind: states, w: 12, h: 8, unit: "none", title: "Kernel programs that are missing", steps: goodBelow, words: map[string]string{"0": "works", "1": "missing"},
			queries:     []query{{`max by (node, object) (ebb_node_probe_degraded{node=~"$node"})`, "{{node}} {{object}}"}},
			description: "lastuse stamps uses of images, usage_* raise lines, writers count who fills the disk, heat what of images is read. Without them ebb falls back to runtime events and to reading the disk every ten seconds; ebb doctor on the node says why."},
		{kind: states, w: 12, h: 8, unit: "none", title: "Agents", steps: []step{{0, "red"}, {1, "green"}}, words: map[string]string{"0": "no", "1": "yes"},
			queries: []query{
				{`min by (node) (ebb_node_ready{node=~"$node"})`, "{{node}}: ready"},
				{`min by (node) (ebb_node_runtime_events_up{node=~"$node"})`, "{{node}}: hears the runtime"},
				{`min by (node) (ebb_node_state_persisted{node=~"$node"})`, "{{node}}: saves its state"},
			},
			description: "ready: it reads the node and decides (/readyz says what lacks). Without the runtime's events new images are seen with the reconcile only; without its state a restart forgets some of what was used when."},
		{kind: lines, w: 8, h: 8, unit: "ops", title: "Kernel events", queries: []query{{`sum by (event) (rate(ebb_node_probe_events_total{node=~"$node"}[$__rate_interval])) > 0`, "{{event}}"}},
			description: "What the programs saw, in the kernel: nobody wakes up for it. allocation_checked grows with every write to a watched disk; crossing_raised is what wakes the agent."},
		{kind: bars, w: 8, h: 8, unit: "short", stacked: true, title: "Kernel events lost", queries: []query{{`sum by (event) (increase(ebb_node_probe_events_lost_total{node=~"$node"}[$__rate_interval]))`, "{{event}}"}},
			description: "Should be 0. ring_buffer_full is late, not lost; the next exact reading mends the others. One that goes on losing is in an alert; heat_* concern statistics alone."},
		{kind: bars, w: 8, h: 8, unit: "short", stacked: true, title: "What woke the agents",
			queries: []query{
				{`sum(increase(ebb_node_line_crossings_total{node=~"$node"}[$__rate_interval]))`, "lines crossed"},
				{`sum(increase(ebb_node_own_wakeups_total{node=~"$node"}[$__rate_interval]))`, "own timers"},
				{`sum(increase(ebb_node_disk_polls_total{node=~"$node"}[$__rate_interval]))`, "of them, to read the disk"},
				{`sum(increase(ebb_node_mount_reports_total{node=~"$node"}[$__rate_interval]))`, "mounts changed"},
			},
			description: "An agent with nothing to do wakes a few times in five minutes. Reading the disk by timer happens only where the kernel cannot watch it."},
		{kind: lines, w: 8, h: 8, unit: "percentunit", title: "CPU", queries: []query{{`sum by (job, node, pod) (rate(process_cpu_seconds_total{job=~"ebb-agent|ebb-controller"}[$__rate_interval]))`, "{{job}} {{node}}{{pod}}"}},
			description: "Of one core. An idle agent takes less than a thousandth; what kernel programs cost is charged to who writes or starts processes, and is in bench/RESULTS.md."},
		{kind: lines, w: 8, h: 8, unit: "bytes", title: "Memory", queries: []query{{`sum by (job, node, pod) (process_resident_memory_bytes{job=~"ebb-agent|ebb-controller"})`, "{{job}} {{node}}{{pod}}"}},
			description: "Resident memory. Some 25 to 40 MiB for an agent; the controller takes about 200 bytes for each object of the cluster, more while it lists."},
		{kind: lines, w: 8, h: 8, unit: "s", title: "A scrape takes", queries: []query{{`max by (job) (scrape_duration_seconds{job=~"ebb-agent|ebb-controller"})`, "{{job}}"}},
			description: "A scrape reads the disks and the kernel's counters at that moment: milliseconds. Seconds mean a filesystem that hangs."},
	}}
}
