package showtest

import (
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
)

// Now is the time of all pages.
var Now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// Evil is a name that must never reach a terminal unescaped.
const Evil = "evil\x1b[2J\x07\u202e\u009b31m\xff\nname"

const gi, mi = 1 << 30, 1 << 20

func ago(d time.Duration) *time.Time {
	t := Now.Add(-d)
	return &t
}

func of[T any](v T) *T { return &v }

// Status is the status of a healthy node.
func Status() page.Status {
	return page.Status{
		Time: Now, Node: "worker-1", Version: "0.2.0", Mode: "enforce", Ready: true, Degraded: []string{},
		Filesystems: []page.Filesystem{
			{Names: []string{"images", "content"}, Path: "/var/lib/containerd", Type: "ext4", Device: "8:1", Kernel: true,
				CapacityBytes: 100 * gi, AvailableBytes: 38 * gi, UsedPercent: 62, HighPercent: 80, LowPercent: 70,
				Inodes: 6_000_000, InodesAvailable: 5_000_000, InodesUsedPercent: 17, InodesHighPercent: 85, InodesLowPercent: 80, FullInSeconds: of(5400.0)},
			{Names: []string{"kubelet"}, Path: "/var/lib/kubelet", Type: "xfs", Device: "8:2", CapacityBytes: 50 * gi, AvailableBytes: 30 * gi, UsedPercent: 40, HighPercent: 80},
		},
		Images: page.Summary{Total: 4, Unused: 2, Reclaimable: page.Size{Bytes: 3 * gi, Inodes: 41_000}, PulledAgain: 1}, Looked: ago(3 * time.Minute),
		LastRun: &page.Run{Ended: Now.Add(-2 * time.Hour), Trigger: "threshold", Result: "done", Removed: 3, FreedBytes: 1288490189},
	}
}

// Pause is an active pause.
func Pause() page.Pause {
	return page.Pause{Since: Now.Add(-40 * time.Minute), Until: Now.Add(80 * time.Minute), By: "alice" + Evil, Reason: "kernel upgrade"}
}

// Troubled is the status of a node with every kind of trouble.
func Troubled() page.Status {
	s := Status()
	s.Node, s.Version, s.Mode, s.Ready, s.NotReady = "worker-2", "0.1.0", "observe", false, "containerd does not answer: "+Evil
	s.Observed = &page.Observed{
		Since:  Now.Add(-6 * 24 * time.Hour),
		Ebb:    page.ObservedBy{Images: 31, Freed: page.Size{Bytes: 40 * gi, Inodes: 90_000}, PulledAgain: 2, PulledBytes: 700 * mi, AboveSeconds: 0},
		Others: page.ObservedBy{Images: 57, Freed: page.Size{Bytes: 61 * gi, Inodes: 120_000}, PulledAgain: 19, PulledBytes: 9 * gi, AboveSeconds: 50_000},
	}
	s.Paused, s.Degraded, s.Running, s.LastRun = of(Pause()), []string{"events", "heat"}, true, nil
	s.Filesystems[0].UsedPercent, s.Filesystems[0].InodesUsedPercent, s.Filesystems[0].InodesGoneInSeconds = 79, 91, of(40.0)
	return s
}

// Images is a page with four images, one of each kind.
func Images() page.Images {
	return page.Images{
		Time: Now, Looked: Now.Add(-3 * time.Minute), Mode: "enforce",
		Images: []page.Image{Old(), Shared(), Busy(), Strange()},
		Totals: page.Totals{
			Images: page.Size{Bytes: 5 * gi, Inodes: 120_000}, Total: page.Size{Bytes: 6 * gi, Inodes: 130_000}, KubeletBytes: 4 * gi, EmptyImages: 1,
			Others: []page.Entry{{By: "container", Size: page.Size{Bytes: 512 * mi, Inodes: 4000}, Count: 3}},
			Nobody: []page.Entry{{By: "blobs", Size: page.Size{Bytes: 512 * mi}, Count: 7, Oldest: ago(50 * time.Hour)}},
			Unread: []string{"ingests of k8s.io: " + Evil},
		},
	}
}

// Old is the image that would be removed first.
func Old() page.Image {
	return page.Image{
		ID: "sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9", References: []string{"docker.io/library/postgres:15", "docker.io/library/postgres@sha256:77"},
		Verdict: "remove", Reason: "threshold", Detail: "unused for 9d, frees 1.5 GiB", FreesBytes: 1610612736, FreesInodes: 20_000,
		LastUsed: ago(9 * 24 * time.Hour), LastUser: "pod shop/db-0", Arrived: Now.Add(-30 * 24 * time.Hour), PulledAgain: 2,
		Own: page.Size{Bytes: 1610612736, Inodes: 20_000}, Shared: page.Size{Bytes: 90 * mi, Inodes: 3000}, Total: page.Size{Bytes: 1610612736 + 90*mi, Inodes: 23_000},
		KubeletBytes: 600 * mi, ReadPercent: of(43.4),
	}
}

// Shared is an image that may be removed, but does not have to be.
func Shared() page.Image {
	return page.Image{
		ID: "sha256:beef00000000718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9aa", References: []string{"docker.io/library/busybox:1.36"},
		Verdict: "keep", Reason: "not_needed", Detail: "the low threshold is reached without it", Arrived: Now.Add(-48 * time.Hour),
		Own: page.Size{Bytes: 4 * mi, Inodes: 400}, Total: page.Size{Bytes: 4 * mi, Inodes: 400}, KubeletBytes: 2 * mi, Unmeasured: 1,
	}
}

// Busy is an image in use, with a long name.
func Busy() page.Image {
	return page.Image{
		ID: "sha256:cafe00000000718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9bb", References: []string{"registry.internal.example.com/teams/payments/checkout-service:2026.11.3-release"},
		Verdict: "keep", Reason: "in_use", Detail: "used by shop/web-1/app and 1 more", LastUsed: ago(0), Arrived: Now.Add(-24 * time.Hour), LastUser: "pod shop/web-1",
		UsedBy: []string{"container k8s.io/4f5e6d7c8b9a00112233445566778899aabbccddeeff00112233445566778899", "container k8s.io/9a8b7c6d5e4f00112233445566778899aabbccddeeff00112233445566778899"},
		Own:    page.Size{Bytes: 2 * gi, Inodes: 60_000}, Shared: page.Size{Bytes: 90 * mi, Inodes: 3000}, Total: page.Size{Bytes: 2*gi + 90*mi, Inodes: 63_000}, KubeletBytes: 800 * mi, ReadPercent: of(7.0),
	}
}

// Strange is an image with hostile names, and with a verdict and a reason of some future version.
func Strange() page.Image {
	return page.Image{
		ID: "sha256:f00d" + Evil, References: []string{Evil, "registry/" + Evil + "@sha256:99"}, Verdict: "ponder" + Evil, Reason: "moon_phase" + Evil, Detail: "waits for " + Evil,
		LastUsed: ago(time.Hour), Arrived: Now.Add(-time.Hour), LastUser: "pod " + Evil, Own: page.Size{Bytes: 1}, Total: page.Size{Bytes: 1},
	}
}

// Why is the explanation of an image.
func Why(i page.Image) page.Why {
	at := Now.Add(11 * time.Hour)
	return page.Why{
		Time: Now, Looked: Now.Add(-3 * time.Minute), Mode: "enforce", Image: i, Place: 1, Of: 2, InTurn: page.Size{Bytes: 1700 * mi, Inodes: 23_000},
		Rules: []page.Rule{
			{Reason: "blocked", State: "does not hold", Text: "nothing blocks removals, and what is known of the image makes sense"},
			{Reason: "in_use", State: "does not hold", Text: "no container, snapshot or sandbox uses it"},
			{Reason: "maximum_age", State: "does not hold", Text: "unused for 9d, maximum age 10d", Changes: &at},
			{Reason: "threshold", State: "holds", Text: i.Detail},
		},
		History: History().Entries[:2],
	}
}

// Plan is a plan that removes one image.
func Plan() page.Plan {
	return page.Plan{
		Time: Now, Looked: Now.Add(-3 * time.Minute), Mode: "enforce", Digest: "sha256:d1", Filesystem: "/var/lib/containerd", Need: page.Size{Bytes: gi},
		Frees: page.Size{Bytes: 1610612736, Inodes: 20_000}, Most: page.Size{Bytes: 1610612736 + 4*mi, Inodes: 20_400}, Remove: []page.Image{Old()}, Keep: []page.Image{Shared(), Busy(), Strange()},
	}
}

// Short is a plan that cannot free the wanted amount.
func Short() page.Plan {
	p := Plan()
	p.Need = page.Size{Bytes: 20 * gi}
	p.Hold = &page.Hold{Since: Now, Bytes: true, HeldBy: []page.HeldBy{{By: "not_images", Size: page.Size{Bytes: 60 * gi}}, {By: "in_use" + Evil, Images: 1, Size: page.Size{Bytes: 2 * gi, Inodes: 60_000}}}}
	return p
}

// History is a page of removals and refusals.
func History() page.History {
	return page.History{Time: Now, Entries: []page.HistoryEntry{
		{Time: Now.Add(-2 * time.Hour), Kind: "image", ID: Old().ID, Names: Old().References, Outcome: "removed", Reason: "threshold", ComputedBytes: 1610612736, FreedBytes: of(uint64(1600000000))},
		{Time: Now.Add(-26 * time.Hour), Kind: "image", ID: "sha256:f00d" + Evil, Names: []string{Evil}, Outcome: "refused", Reason: "in_use", Detail: "came into use: " + Evil, By: Evil},
		{Time: Now.Add(-30 * time.Hour), Kind: "image", ID: Shared().ID, Names: Shared().References, Outcome: "would_remove", Reason: "maximum_age", Detail: "unused for 8d", ComputedBytes: 300 * mi},
		{Time: Now.Add(-31 * time.Hour), Kind: "image", ID: "sha256:beef", Names: []string{Evil}, Outcome: "others_removed", Reason: "others", Detail: "the kubelet or a person removed it", ComputedBytes: 90 * mi},
		{Time: Now.Add(-50 * time.Hour), Kind: "container", ID: "c1", Names: []string{"shop/web-1/app"}, Outcome: "failed", Reason: "dead", Error: "context deadline exceeded"},
	}}
}

// Usage is what takes the space of the node.
func Usage() page.Usage {
	images := Images()
	return page.Usage{
		Time: Now, Looked: images.Looked, Filesystems: Status().Filesystems, Totals: images.Totals, Images: []page.Image{Busy(), Old(), Shared(), Strange()},
		Logs:        []page.Directory{{Path: "/var/log/pods/shop_web-1_u", Pod: "shop/web-1", Size: page.Size{Bytes: 700 * mi, Inodes: 4}}, {Path: "/var/log/pods/" + Evil, Size: page.Size{Bytes: 4096, Inodes: 1}}},
		OpenDeleted: &page.Open{Size: page.Size{Bytes: gi, Inodes: 1}, By: []page.OpenBy{{PID: 4711, Command: "java" + Evil, Size: page.Size{Bytes: gi, Inodes: 1}}}},
		Unknown:     []string{"logs of pods, in part: " + Evil},
	}
}

// Summary is the kubelet's answer to /stats/summary on the same node.
const Summary = `{"node":{"nodeName":"worker-1"},"pods":[
	{"podRef":{"name":"web-1","namespace":"shop"},"containers":[{"name":"app","rootfs":{"usedBytes":52428800},"logs":{"usedBytes":734003200}}],
	 "volume":[{"name":"scratch","usedBytes":1073741824},{"name":"data","usedBytes":9999999999,"pvcRef":{"name":"data","namespace":"shop"}}]},
	{"podRef":{"name":"web-2","namespace":"shop"},"containers":[{"name":"app","rootfs":{"usedBytes":4096},"logs":{}}]}]}`

// Writers has three writers: a container and two cgroups of the host, one of which has ended. at is
// when they were counted; grown is how many bytes the container has added.
func Writers(at time.Time, grown uint64) show.Writers {
	return show.Writers{Time: at, Unknown: "writers on xfs are not counted", Writers: []show.Writer{
		{Namespace: "shop", Pod: "web-1", Container: "app", ID: "c1", NetBytes: int64(grown), GrownBytes: grown},
		{Cgroup: "/system.slice/" + Evil, NetBytes: 9 * gi, GrownBytes: 9 * gi},
		{Cgroup: "/gone", NetBytes: -5 * mi, Ended: true},
	}}
}
