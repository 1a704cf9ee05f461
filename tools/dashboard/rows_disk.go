package dashboard

func glance() row {
	return row{"At a glance", []panel{
		{kind: figure, w: 4, h: 4, unit: "short", title: "Nodes kept", queries: []query{{`count(up{job="ebb-agent", node=~"$node"} == 1)`, ""}},
			description: "Nodes whose ebb-agent answers. It should be all of them: where no agent runs, disks fill as they did before. Compare with the number of nodes of your cluster."},
		{kind: figure, w: 4, h: 4, unit: "short", title: "Disks at their high line", steps: goodBelow,
			queries:     []query{{`sum(((ebb_node_filesystem_used_percent{node=~"$node"} >= bool ignoring (line) (ebb_node_filesystem_line_percent{line="high"} < 100)))` + first + `)`, ""}},
			description: "How many disks are at or above the line at which ebb acts, by bytes or by inodes. A disk is here for seconds while images go; one that stays is either full of something else than images, or only observed."},
		{kind: figure, w: 4, h: 4, unit: "s", title: "The first disk is full in", steps: []step{{0, "red"}, {600, "orange"}, {3600, "green"}},
			queries:     []query{{`min(ebb_node_filesystem_time_to_full_seconds{node=~"$node"})`, ""}},
			description: "The shortest time to full of all disks, if writers go on as in the last five minutes and nothing were removed. Below the high line that is no reason to worry: reclaim has not begun. ∞ means that nothing fills."},
		{kind: figure, w: 4, h: 4, unit: "bytes", title: "Freed in 24 hours", queries: []query{{`sum(increase(ebb_node_image_freed_bytes_total{node=~"$node"}[24h]))`, ""}},
			description: "What came free while ebb removed images, as measured on the disk after each removal: not the images' nominal sizes, much of which others share."},
		{kind: figure, w: 4, h: 4, unit: "short", title: "Images removed in 24 hours", queries: []query{{`sum(increase(ebb_node_images_removed_total{node=~"$node"}[24h]))`, ""}},
			description: "Few and old is good: each removed image is a pull, should it be needed again. Many on every node every day means that disks are too small, or the low line too far below the high one."},
		{kind: figure, w: 4, h: 4, unit: "short", title: "Alerts", steps: goodBelow, queries: []query{{`count(ALERTS{alertname=~"Ebb.+", alertstate="firing", severity!="info"}) or vector(0)`, ""}},
			description: "Alerts of ebb that fire now, without those that only inform. Each has a section in docs/operate.md. Always 0 if deploy/prometheus/rules.yaml is not loaded."},
	}}
}

func pressure() row {
	const used = `ebb_node_filesystem_used_percent{node=~"$node", resource="bytes"}`
	const line = `ebb_node_filesystem_line_percent{node=~"$node", resource="bytes", line=`
	name := "{{node}} {{filesystem}}"
	return row{"Disk pressure, with its lines", []panel{
		{kind: lines, w: 12, h: 9, unit: "percent", most: 100, title: "Used space and its lines",
			queries: []query{
				{used + first, name},
				{`max by (filesystem) ((` + line + `"high"} < 100)` + first + `)`, "{{filesystem}}: high"},
				{`max by (filesystem) (` + line + `"low"}` + first + `)`, "{{filesystem}}: low"},
			},
			description: "Used as the kubelet counts it, for each disk that ebb watches: images (unpacked layers), content (blobs), containers, kubelet, logs; those on one disk are one line. At the high line reclaim begins, at the low line it ends: where images are, the picture should be a saw tooth between the two that never stays above. The kubelet's eviction line (85 % by default) should lie above all of it."},
		{kind: lines, w: 12, h: 9, unit: "s", logarithmic: true, title: "Time to full",
			queries:     []query{{`(ebb_node_filesystem_time_to_full_seconds{node=~"$node"} < 86400 * 30)` + first, name + ": {{resource}}"}},
			description: "When nothing would be available any more if writers went on as in the last five minutes and ebb removed nothing. It is measured, not extrapolated from removals: on a disk that reclaim keeps low it shows how hard it works. Disks that do not fill, or take more than a month, are not drawn. Short and above the high line is what to look at: see Who fills the disk."},
		{kind: lines, w: 12, h: 8, unit: "percent", most: 100, title: "Used inodes",
			queries: []query{
				{`ebb_node_filesystem_used_percent{node=~"$node", resource="inodes"}` + first, name},
				{`max by (filesystem) ((ebb_node_filesystem_line_percent{node=~"$node", resource="inodes", line="high"} < 100)` + first + `)`, "{{filesystem}}: high"},
			},
			description: "Small files run a disk out of inodes long before its bytes; the kubelet's image collection never looks at them. Filesystems that do not count inodes (btrfs) stay at 0."},
		{kind: table, w: 12, h: 8, unit: "short", title: "Disks now",
			queries: []query{
				{`(1 - ebb_node_filesystem_available_bytes{node=~"$node"} / ebb_node_filesystem_capacity_bytes) * 100` + first, ""},
				{`ebb_node_filesystem_available_bytes{node=~"$node"}` + first, ""},
				{`ebb_node_filesystem_capacity_bytes{node=~"$node"}` + first, ""},
				{`ebb_node_filesystem_time_to_full_seconds{node=~"$node", resource="bytes"}` + first, ""},
			},
			columns: []column{
				{"node", "Node", ""}, {"filesystem", "Disk", ""}, {value(0), "Used", "percent"}, {value(1), "Available", "bytes"},
				{value(2), "Size", "bytes"}, {value(3), "Full in", "s"},
			},
			description: "Every disk at present. Available is what unprivileged writers can still get. Sort by Used or Full in to find the node that needs you."},
	}}
}

func reclaimed() row {
	return row{"What was reclaimed, and why", []panel{
		{kind: bars, w: 8, h: 8, unit: "short", stacked: true, title: "Images removed", queries: []query{{`sum by (reason) (increase(ebb_node_images_removed_total{node=~"$node"}[$__rate_interval]))`, "{{reason}}"}},
			description: "threshold: a disk had reached its high line. maximum_age: nobody had used them for imageMaximumGCAge. curl -s AGENT/images says for every image why it went or stays."},
		{kind: bars, w: 8, h: 8, unit: "bytes", stacked: true, title: "Bytes freed", queries: []query{{`sum by (node) (increase(ebb_node_image_freed_bytes_total{node=~"$node"}[$__rate_interval]))`, "{{node}}"}},
			description: "What the disk gave back during removals. Little freed by many removals means that the images share their layers with others that stay."},
		{kind: bars, w: 8, h: 8, unit: "short", stacked: true, title: "Runs, by how they ended", queries: []query{{`sum by (result) (increase(ebb_node_reclaim_runs_total{node=~"$node"}[$__rate_interval])) > 0`, "{{result}}"}},
			description: "low_reached and age_done are good ends. hold: nothing is left that may go. capped: maxRemovalsPerHour. shortfall: a removal freed less than computed. incomplete: removals failed or images came into use; tried again. observed: mode observe, nothing was removed."},
		{kind: lines, w: 8, h: 8, unit: "s", logarithmic: true, title: "From the write to the first room",
			queries: []query{
				{`histogram_quantile(0.5, sum by (le) (increase(ebb_node_crossing_to_first_removal_seconds_bucket{node=~"$node"}[1h])))`, "half of them"},
				{`histogram_quantile(0.99, sum by (le) (increase(ebb_node_crossing_to_first_removal_seconds_bucket{node=~"$node"}[1h])))`, "99 %"},
			},
			description: "From the write that crossed the high line, as the kernel saw it, to the first image being gone. Tens of milliseconds are normal, plus what the container runtime takes for a removal; seconds mean that the runtime, or the disk, is busy."},
		{kind: lines, w: 8, h: 8, unit: "bytes", stacked: true, title: "What holds the space", queries: []query{{`sum by (by) (ebb_node_space_held_bytes{node=~"$node"}) > 0`, "{{by}}"}},
			description: "Drawn only while ebb holds: all that may go is gone, and the disk is still above its low line. in_use, wanted: by containers and pods of this node. keep_rule, pinned: by configuration. not_images: everything else on the disk; see Who fills the disk."},
		{kind: bars, w: 8, h: 8, unit: "short", stacked: true, title: "What did not go as planned",
			queries: []query{
				{`sum(increase(ebb_node_image_removal_failures_total{node=~"$node"}[$__rate_interval]))`, "refused by the runtime"},
				{`sum(increase(ebb_node_image_shortfalls_total{node=~"$node"}[$__rate_interval]))`, "freed less than computed"},
				{`sum(increase(ebb_node_image_unsettled_total{node=~"$node"}[$__rate_interval]))`, "the disk did not settle"},
				{`sum(increase(ebb_node_images_spared_total{node=~"$node"}[$__rate_interval]))`, "needed after all, spared"},
				{`sum(increase(ebb_node_images_mended_total{node=~"$node"}[$__rate_interval]))`, "names put back after a crash"},
			},
			description: "Spared is ebb at its best: the look right before a removal found the image needed. The others should be rare; refusals are in the agent's log with the runtime's words."},
	}}
}

func writers() row {
	const labels = "{{node}} {{namespace}}/{{pod}} {{container}}"
	return row{"Who fills the disk (needs writers.top in the agent's configuration)", []panel{
		{kind: gauges, w: 8, h: 9, unit: "bytes", title: "Made disks fuller since they started", queries: []query{{`topk(10, ebb_node_container_growth_bytes{node=~"$node"})`, labels}},
			description: "Containers by what they took from the watched filesystems less what they gave back: writable layers, emptyDirs and logs, files that are deleted and still open included. What the kernel counted, not what du can find. One that the kubelet did not make has no pod. Empty while writers.top is 0, the default."},
		{kind: lines, w: 8, h: 9, unit: "Bps", title: "Take now", queries: []query{{`topk(10, rate(ebb_node_container_grown_bytes_total{node=~"$node"}[$__rate_interval]))`, labels}},
			description: "How fast containers take space, whether or not they give it back. Beside Time to full this names the one to talk to."},
		{kind: lines, w: 8, h: 9, unit: "Bps", title: "Give back now", queries: []query{{`topk(10, rate(ebb_node_container_shrunk_bytes_total{node=~"$node"}[$__rate_interval]))`, labels}},
			description: "Who takes and gives back as much (a log that is rotated, a cache) fills nothing. Who only takes does."},
	}}
}
