package config

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

// problems lists what is wrong with c, leaving out fields that already could
// not be read.
func (c *Config) problems(bad map[string]bool) []error {
	var errs []error
	fail := func(field, format string, args ...any) {
		if !bad[field] {
			errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
		}
	}
	oneOf := func(field, got string, allowed ...string) {
		if !slices.Contains(allowed, got) {
			fail(field, "%q is not one of %q", got, allowed)
		}
	}
	absolute := func(field, path string) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			fail(field, "%q is not a clean absolute path", path)
		}
	}
	percent := func(field string, high int) {
		if high < 1 || high > 100 {
			fail(field, "%d is not between 1 and 100", high)
		}
	}

	oneOf("mode", string(c.Mode), string(ModeEnforce), string(ModeObserve))
	if d := time.Duration(c.ReconcileInterval); d < 30*time.Second || d > 24*time.Hour {
		fail("reconcileInterval", "%s is not between 30s and 24h", c.ReconcileInterval)
	}
	absolute("runtime.socket", c.Runtime.Socket)
	absolute("kernel.pinDirectory", c.Kernel.PinDirectory)
	oneOf("kernel.layerHeat", c.Kernel.LayerHeat, HeatAuto, HeatOff, HeatReads)
	absolute("state.directory", c.State.Directory)
	if c.Writers.Top < 0 || c.Writers.Top > 1000 {
		fail("writers.top", "%d is not between 0 and 1000", c.Writers.Top)
	}
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf("log.format", c.Log.Format, "json", "text")
	if err := checkAddress(c.Server.Address); err != nil {
		fail("server.address", "%v", err)
	}
	c.Images.problems(bad, fail)
	absolute("filesystems.mountInfo", c.Filesystems.MountInfo)
	for _, d := range []struct {
		field string
		Directory
	}{{"filesystems.kubelet", c.Filesystems.Kubelet}, {"filesystems.podLogs", c.Filesystems.PodLogs}} {
		if d.Path != "" {
			absolute(d.field+".path", d.Path)
		}
		percent(d.field+".highThresholdPercent", d.HighThresholdPercent)
		percent(d.field+".inodesHighThresholdPercent", d.InodesHighThresholdPercent)
	}
	return errs
}

func (i *Images) problems(bad map[string]bool, fail func(field, format string, args ...any)) {
	lines := func(highField, lowField string, high, low int) {
		if high < 1 || high > 100 {
			fail(highField, "%d is not between 1 and 100", high)
		}
		if low < 0 || low > 99 {
			fail(lowField, "%d is not between 0 and 99", low)
		} else if low >= high && !bad[highField] {
			fail(lowField, "%d is not below %s (%d)", low, highField, high)
		}
	}
	lines("images.imageGCHighThresholdPercent", "images.imageGCLowThresholdPercent", i.HighThresholdPercent, i.LowThresholdPercent)
	lines("images.inodesHighThresholdPercent", "images.inodesLowThresholdPercent", i.InodesHighThresholdPercent, i.InodesLowThresholdPercent)

	if i.MinimumAge < 0 {
		fail("images.imageMinimumGCAge", "%s is negative", i.MinimumAge)
	}
	if i.MaximumAge < 0 {
		fail("images.imageMaximumGCAge", "%s is negative; 0s switches it off", i.MaximumAge)
	}
	if i.MaximumAge > 0 && i.MaximumAge < i.MinimumAge {
		fail("images.imageMaximumGCAge", "%s is less than imageMinimumGCAge (%s)", i.MaximumAge, i.MinimumAge)
	}
	if i.MaxRemovalsPerHour < 1 || i.MaxRemovalsPerHour > 100000 {
		fail("images.maxRemovalsPerHour", "%d is not between 1 and 100000", i.MaxRemovalsPerHour)
	}
	for n, rule := range i.Keep {
		if _, err := image.ParseKeepRule(rule); err != nil {
			fail(fmt.Sprintf("images.keep[%d]", n), "%v", err)
		}
	}
}

func checkAddress(address string) error {
	if address == "" {
		return nil // no server
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("want host:port: %w", err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil { // 0: any free port
		return fmt.Errorf("port %q is not a number from 0 to 65535", port)
	}
	return nil
}

// Policy returns the image policy in the terms of the pure core.
func (c *Config) Policy() image.Policy {
	return image.Policy{
		HighPercent:       c.Images.HighThresholdPercent,
		LowPercent:        c.Images.LowThresholdPercent,
		InodesHighPercent: c.Images.InodesHighThresholdPercent,
		InodesLowPercent:  c.Images.InodesLowThresholdPercent,
		MinimumAge:        time.Duration(c.Images.MinimumAge),
		MaximumAge:        time.Duration(c.Images.MaximumAge),
	}
}
