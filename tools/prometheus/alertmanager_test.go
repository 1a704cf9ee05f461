package prometheus

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAlertmanager(t *testing.T) {
	if why := Missing(); why != "" {
		t.Skip("SKIPPED: " + why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{good: "route: {receiver: x}\nreceivers: [{name: x}]\n", bad: "no_such_field: 1\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := StartAlertmanager(ctx, dir, good)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := a.Post(ctx, map[string]string{"alertname": "A"}); err != nil {
		t.Fatal(err)
	}
	list, err := a.Alerts(ctx)
	for err == nil && len(list) == 0 && ctx.Err() == nil {
		list, err = a.Alerts(ctx)
	}
	if err != nil || len(list) != 1 || list[0].Labels["alertname"] != "A" || len(list[0].Receivers) != 1 || list[0].Receivers[0].Name != "x" || list[0].Fingerprint == "" {
		t.Errorf("alerts %+v, %v", list, err)
	}
	if _, err := StartAlertmanager(ctx, t.TempDir(), bad); err == nil || !strings.Contains(err.Error(), "no_such_field") {
		t.Errorf("a configuration that is none: %v", err)
	}
	if _, err := Amtool(ctx, dir, "check-config", "bad.yaml"); err == nil || !strings.Contains(err.Error(), "no_such_field") {
		t.Errorf("amtool about a configuration that is none: %v", err)
	}
}
