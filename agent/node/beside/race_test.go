package beside

import (
	"context"
	"testing"

	"github.com/ebb-agent/ebb/tools/dice"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/startrace"
)

// TestStartRace: kubernetes issue 123631. No pod is lost whose image was there
// when it was bound, however often the agent is killed in the middle of a removal.
func TestStartRace(t *testing.T) {
	for flavor, starts := range map[node.Flavor]int{node.Debian: 140, node.V2: 60} {
		t.Run(string(flavor), func(t *testing.T) {
			b := newFixture(t, flavor, nil, handedOver)
			b.config.Images.HighThresholdPercent, b.config.Images.LowThresholdPercent = 80, 75
			b.must(b.start(t.Context()))
			// Places for about half of the images.
			u, err := b.node.Usage()
			b.must(err)
			b.must(b.node.FillTo("fill", 78-100*15*startrace.ImageBytes/float64(u.CapacityBytes)))
			result, err := startrace.Run(t.Context(), startrace.Options{
				Node: b.node, Kubelet: b.kubelet, Starts: starts, Seed: dice.New(t).Uint64(), KillEvery: 12,
				Kill: func(ctx context.Context) error {
					if err := b.agent.Kill(); err != nil {
						return err
					}
					return b.start(ctx)
				},
				Say: t.Logf,
			})
			b.must(err)
			removed := b.count("image removed", "", "")
			t.Logf("%d pods started, %d failed for a moment, %d bound while their image was away; %d images removed, %d of them brought in again, %d kept at the last moment, %d kills",
				result.Started, result.Transiently, result.Missing, removed, result.Brought, b.count("image kept by the last check", "", ""), result.Kills)
			for _, f := range result.Failures {
				t.Errorf("failed permanently: %s", f)
			}
			if removed < starts/10 || result.Started < starts*3/4 || result.Kills == 0 {
				t.Error("there was no race: too few removals, starts or kills")
			}
		})
	}
}
