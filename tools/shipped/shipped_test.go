package shipped

import (
	"testing"

	clusterconfig "github.com/ebb-agent/ebb/agent/cluster/config"
	nodeconfig "github.com/ebb-agent/ebb/agent/node/config"
)

// TestConfig: both are what the programs take, and the agent asks the API server.
func TestConfig(t *testing.T) {
	agent, err := Config("agent")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := nodeconfig.Parse(agent); err != nil || c.Pods.Source != nodeconfig.PodsFromAPIServer {
		t.Errorf("agent: %+v, %v", c.Pods, err)
	}
	controller, err := Config("controller")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := clusterconfig.Parse(controller); err != nil || !c.LeaderElection.Enabled {
		t.Errorf("controller: %+v, %v", c.LeaderElection, err)
	}
	if _, err := Config("nobody"); err == nil {
		t.Error("nobody has a configuration")
	}
}
