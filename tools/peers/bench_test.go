package peers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// BenchmarkKubeletIdle measures what an idle standalone kubelet costs. Run it with -benchtime 1x.
func BenchmarkKubeletIdle(b *testing.B) {
	for _, pods := range []int{0, 10} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			peerstest.Need(b)
			n := nodetest.Start(b, node.Config{Containerd: node.V2, SizeBytes: 1 << 30})
			if _, err := n.Import(b.Context(), node.CRINamespace, node.Image{Name: image}); err != nil {
				b.Fatal(err)
			}
			k := peerstest.StartKubelet(b, peers.KubeletConfig{Node: n})
			for i := range pods {
				name := fmt.Sprintf("app-%d", i)
				if err := k.AddStaticPod(name, peers.PodSpec{Name: name, Image: image}.Manifest()); err != nil {
					b.Fatal(err)
				}
			}
			for i := range pods {
				if err := k.WaitPod(b.Context(), "default", fmt.Sprintf("app-%d-%s", i, k.NodeName()), peers.IsRunning); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				measure(b, k, 20*time.Second, time.Minute)
			}
		})
	}
}

// measure lets a kubelet settle, then watches it.
func measure(b *testing.B, k *peers.Kubelet, settle, period time.Duration) {
	time.Sleep(settle)
	before, err := k.Usage()
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(period)
	after, err := k.Usage()
	if err != nil {
		b.Fatal(err)
	}
	rate := after.Since(before)
	b.ReportMetric(rate.CPUPercent, "cpu_%")
	b.ReportMetric(rate.Voluntary, "voluntary/s")
	b.ReportMetric(rate.Involuntary, "involuntary/s")
	b.ReportMetric(float64(after.RSSBytes)/(1<<20), "rss_MiB")
	b.ReportMetric(float64(after.PeakBytes)/(1<<20), "peak_MiB")
}
