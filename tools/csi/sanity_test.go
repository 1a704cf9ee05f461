package csi_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"

	"github.com/ebb-agent/ebb/tools/csi"
)

// TestSanity: the driver does what the specification wants of one.
func TestSanity(t *testing.T) {
	dir, err := os.MkdirTemp("", "csi") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c := csi.Config{Name: "directories.example.com", Socket: filepath.Join(dir, "s"), Root: filepath.Join(dir, "volumes")}
	d, err := csi.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Stop()
	config := sanity.NewTestConfig()
	config.Address = "unix://" + c.Socket
	config.TargetPath, config.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	sanity.Test(t, config)
	calls := map[string]int{}
	for _, method := range d.Calls() {
		calls[method]++
	}
	for _, method := range []string{"GetPluginInfo", "ControllerGetCapabilities", "CreateVolume", "DeleteVolume", "ListVolumes", "NodePublishVolume", "NodeUnpublishVolume"} {
		if calls[method] == 0 {
			t.Errorf("the suite never calls %s", method)
		}
	}
	if left := d.Volumes(); len(left) > 0 {
		t.Errorf("the suite leaves volumes: %q", left)
	}
}
