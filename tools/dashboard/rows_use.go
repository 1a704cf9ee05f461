package dashboard

import (
	"fmt"
	"time"
)

func imageUse() row {
	return row{"Use of images", []panel{
		{kind: gauges, w: 8, h: 9, unit: "short", title: "Images by last use", queries: byLastUse(),
			description: "When images were last used, seen in the kernel at each start and end of a process: also while the agent was down, also by builders and nerdctl. What has long been unused goes first when a disk needs room; if nothing is old and disks are full, they are too small for what runs there."},
		{kind: gauges, w: 8, h: 9, unit: "short", title: "Images by how much of them was ever read",
			queries: []query{
				{`sum(ebb_node_image_read_percent_bucket{node=~"$node", le="0"})`, "never read"},
				{readShare("0", "10"), "up to 10 %"},
				{readShare("10", "50"), "10 to 50 %"},
				{readShare("50", "100"), "more than half"},
			},
			description: "Of the bytes of each image, how much containers ever read since the node booted. Images that run and are read to a few percent are candidates for smaller bases. It is statistics: what is removed does not depend on it."},
		{kind: lines, w: 8, h: 9, unit: "bytes", stacked: true, title: "Bytes of layers, read and never read",
			queries: []query{
				{`sum(ebb_node_layer_read_bytes{node=~"$node"})`, "read"},
				{`sum(ebb_node_layer_bytes{node=~"$node"} - ebb_node_layer_read_bytes)`, "never read"},
			},
			description: "What all unpacked layers take, shared ones once, split by whether a container ever read the file. The upper part is what was pulled and unpacked for nothing. curl -s AGENT/heat has it image by image."},
		{kind: lines, w: 16, h: 8, unit: "short", stacked: true, title: "Images by verdict", queries: []query{{`sum by (state) (ebb_node_images{node=~"$node"}) > 0`, "{{state}}"}},
			description: "Why images stay: in_use by a container in any state, wanted by a pod of the node, pinned or sandbox, keep_rule, pods_unknown came since the pods last answered, minimum_age; not_needed could go, and the disk is low enough without; frees_nothing shares every layer with images that stay; futile would free next to nothing of what is needed; hold and blocked: see docs/operate.md."},
		{kind: lines, w: 8, h: 8, unit: "short", title: "Layers whose uses are stamped", queries: []query{
			{`sum(ebb_node_layers_tracked{node=~"$node"})`, "tracked by the kernel"},
			{`sum(increase(ebb_node_layer_resolve_failures_total{node=~"$node"}[$__rate_interval]))`, "not found yet"},
			{`sum(ebb_node_layers_unread_unknown{node=~"$node"})`, "reads not fully known"},
		},
			description: "Top layers of images that the kernel programs know, so that a use of the image is stamped as it happens: as many as there are images. One that was not found yet is tried again, and uses of it are noted meanwhile."},
	}}
}

// byLastUse takes the histogram of images apart.
func byLastUse() []query {
	bounds := []struct {
		most time.Duration
		name string
	}{
		{0, "in use"}, {time.Hour, "within an hour"}, {6 * time.Hour, "within 6 hours"}, {24 * time.Hour, "within a day"},
		{7 * 24 * time.Hour, "within a week"}, {30 * 24 * time.Hour, "within a month"}, {90 * 24 * time.Hour, "within three months"},
	}
	bucket := func(le string) string {
		return fmt.Sprintf(`sum(ebb_node_image_unused_seconds_bucket{node=~"$node", le="%s"})`, le)
	}
	var list []query
	for i, b := range bounds {
		expr := bucket(number(b.most.Seconds()))
		if i > 0 {
			expr += " - " + bucket(number(bounds[i-1].most.Seconds()))
		}
		list = append(list, query{expr, b.name})
	}
	return append(list, query{bucket("+Inf") + " - " + bucket(number(bounds[len(bounds)-1].most.Seconds())), "longer ago"})
}

func readShare(from, to string) string {
	return fmt.Sprintf(`sum(ebb_node_image_read_percent_bucket{node=~"$node", le="%s"}) - sum(ebb_node_image_read_percent_bucket{node=~"$node", le="%s"})`, to, from)
}

func dead() row {
	return row{"Dead containers", []panel{
		{kind: lines, w: 8, h: 8, unit: "short", stacked: true, title: "Dead containers, sandboxes and logs that stay",
			queries:     []query{{`sum by (kind, state) (ebb_node_workloads{node=~"$node", state!~"running|start_grace|has_containers|foreign|pod_exists"}) > 0`, "{{kind}}: {{state}}"}},
			description: "By kind and by why they stay: within_limits is what maxPerPodContainer leaves for kubectl logs --previous. What is named after a reason to go (pod_gone, max_per_pod_container, …) is on its way; if it stays, mode is observe. removal_failed is tried again, with pauses."},
		{kind: bars, w: 8, h: 8, unit: "short", stacked: true, title: "Removed", queries: []query{{`sum by (kind, reason) (increase(ebb_node_workloads_removed_total{node=~"$node"}[$__rate_interval])) > 0`, "{{kind}}: {{reason}}"}},
			description: "Dead containers, sandboxes, directories of logs and dead links to logs that went, and why. A node with many jobs has many; pod_ended means that a disk needed what ended pods had left behind."},
		{kind: bars, w: 8, h: 8, unit: "short", stacked: true, title: "Failed, or needed after all",
			queries: []query{
				{`sum by (kind) (increase(ebb_node_workload_removal_failures_total{node=~"$node"}[$__rate_interval])) > 0`, "{{kind}}: failed"},
				{`sum by (kind) (increase(ebb_node_workloads_spared_total{node=~"$node"}[$__rate_interval])) > 0`, "{{kind}}: spared"},
			},
			description: "Failures are often a network plugin or a mount that hangs; the agent's log has the runtime's words. Spared ones were found alive, or needed, right before the removal."},
	}}
}
