package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/policy/image"
)

// maxSocketPath is the size of sun_path without its terminating zero (unix(7)).
const maxSocketPath = 107

// problems returns what is wrong with c, except for the fields in bad, which could not be read.
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
	oneOf("mode", string(c.Mode), string(ModeEnforce), string(ModeObserve))
	if d := time.Duration(c.ReconcileInterval); d < 30*time.Second || d > 24*time.Hour {
		fail("reconcileInterval", "%s is not between 30s and 24h", c.ReconcileInterval)
	}
	if c.Runtime.Socket != SocketAuto {
		absolute("runtime.socket", c.Runtime.Socket)
	}
	absolute("kernel.pinDirectory", c.Kernel.PinDirectory)
	oneOf("kernel.layerHeat", c.Kernel.LayerHeat, HeatAuto, HeatOff, HeatReads)
	absolute("state.directory", c.State.Directory)
	absolute("state.lockFile", c.State.LockFile)
	if n := c.Kubelet.ImageGCHighThresholdPercent; n < 0 || n > 100 {
		fail("kubelet.imageGCHighThresholdPercent", "%d is not between 0 and 100", n)
	}
	if c.Writers.Top < 0 || c.Writers.Top > 1000 {
		fail("writers.top", "%d is not between 0 and 1000", c.Writers.Top)
	}
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf("log.format", c.Log.Format, "json", "text")
	c.Server.problems(fail)
	c.Images.problems(bad, fail)
	c.Containers.problems(fail)
	oneOf("containers.ageFrom", c.Containers.AgeFrom, AgeFromCreation, AgeFromTermination)
	c.Pods.problems(fail)
	oneOf("pods.source", c.Pods.Source, PodsFromNobody, PodsFromKubelet, PodsFromAPIServer)
	for field, path := range c.files() {
		if path != "" {
			absolute(field, path)
		}
	}
	c.Filesystems.problems(fail, absolute)
	return errs
}

func (f *Filesystems) problems(fail func(field, format string, args ...any), absolute func(field, path string)) {
	percent := func(field string, high int) {
		if high < 1 || high > 100 {
			fail(field, "%d is not between 1 and 100", high)
		}
	}
	absolute("filesystems.mountInfo", f.MountInfo)
	for _, d := range []struct {
		field string
		Directory
	}{{"filesystems.kubelet", f.Kubelet}, {"filesystems.podLogs", f.PodLogs}} {
		if d.Path != "" {
			absolute(d.field+".path", d.Path)
		}
		percent(d.field+".highThresholdPercent", d.HighThresholdPercent)
		percent(d.field+".inodesHighThresholdPercent", d.InodesHighThresholdPercent)
	}
}

func (i *Images) problems(bad map[string]bool, fail func(field, format string, args ...any)) {
	thresholds := func(highField, lowField string, high, low int) {
		if high < 1 || high > 100 {
			fail(highField, "%d is not between 1 and 100", high)
		}
		if low < 0 || low > 99 {
			fail(lowField, "%d is not between 0 and 99", low)
		} else if low >= high && !bad[highField] {
			fail(lowField, "%d is not below %s (%d)", low, highField, high)
		}
	}
	thresholds("images.imageGCHighThresholdPercent", "images.imageGCLowThresholdPercent", i.HighThresholdPercent, i.LowThresholdPercent)
	thresholds("images.inodesHighThresholdPercent", "images.inodesLowThresholdPercent", i.InodesHighThresholdPercent, i.InodesLowThresholdPercent)

	if i.MinimumAge < 0 {
		fail("images.imageMinimumGCAge", "%s is negative", i.MinimumAge)
	}
	if i.MaximumAge < 0 {
		fail("images.imageMaximumGCAge", "%s is negative; 0s switches it off", i.MaximumAge)
	}
	if i.MaximumAge > 0 && i.MaximumAge < i.MinimumAge {
		fail("images.imageMaximumGCAge", "%s is less than imageMinimumGCAge (%s)", i.MaximumAge, i.MinimumAge)
	}
	if i.FutileShare < 0 || i.FutileShare > 100 {
		fail("images.futileShare", "%d is not between 0 and 100", i.FutileShare)
	}
	if err := i.MaxRemovalsPerHour.problem(); err != nil {
		fail("images.maxRemovalsPerHour", "%v", err)
	}
	if i.AgeRemovalsPerHourPercent < 1 || i.AgeRemovalsPerHourPercent > 100 {
		fail("images.ageRemovalsPerHourPercent", "%d is not between 1 and 100", i.AgeRemovalsPerHourPercent)
	}
	for n, rule := range i.Keep {
		if _, err := image.ParseKeepRule(rule); err != nil {
			fail(fmt.Sprintf("images.keep[%d]", n), "%v", err)
		}
	}
}

// files returns the paths that may be empty, by field.
func (c *Config) files() map[string]string {
	return map[string]string{
		"pauseFile":                         c.PauseFile,
		"containers.logLinks":               c.Containers.LogLinks,
		"pods.kubelet.tokenFile":            c.Pods.Kubelet.TokenFile,
		"pods.kubelet.clientCertificate":    c.Pods.Kubelet.ClientCertificate,
		"pods.kubelet.clientKey":            c.Pods.Kubelet.ClientKey,
		"pods.kubelet.certificateAuthority": c.Pods.Kubelet.CertificateAuthority,
		"pods.apiserver.kubeconfig":         c.Pods.APIServer.Kubeconfig,
		"server.webConfigFile":              c.Server.WebConfigFile,
	}
}

func (c *Containers) problems(fail func(field, format string, args ...any)) {
	for field, d := range map[string]Duration{"minAge": c.MinAge, "startGrace": c.StartGrace} {
		if d < 0 {
			fail("containers."+field, "%s is negative", d)
		}
	}
	if c.MaxRemovalsPerSecond < 0 {
		fail("containers.maxRemovalsPerSecond", "%d is negative; 0 is no limit", c.MaxRemovalsPerSecond)
	}
}

func (p *Pods) problems(fail func(field, format string, args ...any)) {
	if d := time.Duration(p.APIServer.ListSpread); d != 0 && (d < time.Second || d > time.Hour) {
		fail("pods.apiserver.listSpread", "%s is neither 0 nor between 1s and 1h", p.APIServer.ListSpread)
	}
	k := &p.Kubelet
	if u, err := url.Parse(k.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		fail("pods.kubelet.url", "%q is not an http or https URL", k.URL)
	}
	if (k.ClientCertificate == "") != (k.ClientKey == "") {
		fail("pods.kubelet.clientKey", "a client certificate and its key go together")
	}
	if k.TokenFile != "" && k.ClientCertificate != "" {
		fail("pods.kubelet.tokenFile", "either a token or a client certificate, not both")
	}
	if k.CertificateAuthority != "" && k.InsecureSkipTLSVerify {
		fail("pods.kubelet.insecureSkipTLSVerify", "makes no use of pods.kubelet.certificateAuthority; remove one of them")
	}
}

func (s *Server) problems(fail func(field, format string, args ...any)) {
	for field, address := range map[string]string{"server.address": s.Address, "server.healthAddress": s.HealthAddress} {
		if err := checkAddress(address); err != nil {
			fail(field, "%v", err)
		}
	}
	if s.WebConfigFile != "" && (s.Address == "" || s.HealthAddress == "") {
		fail("server.webConfigFile", "needs server.address, which it is for, and server.healthAddress: probes know no password")
	}
	if p := s.AdminSocket; p != "" && (!filepath.IsAbs(p) || filepath.Clean(p) != p || len(p) > maxSocketPath) {
		fail("server.adminSocket", "%q is not a clean absolute path of at most %d bytes", p, maxSocketPath)
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

// ContainerPolicy returns the policy for dead containers in the terms of the
// pure core.
func (c *Config) ContainerPolicy() container.Policy {
	p := container.Policy{
		MinAge:             time.Duration(c.Containers.MinAge),
		MaxPerPodContainer: c.Containers.MaxPerPodContainer,
		MaxContainers:      c.Containers.MaxContainers,
		StartGrace:         time.Duration(c.Containers.StartGrace),
	}
	if c.Containers.AgeFrom == AgeFromTermination {
		p.AgeFrom = container.FromTermination
	}
	return p
}

// Policy returns the image policy in the terms of the pure core.
func (c *Config) Policy() image.Policy {
	return image.Policy{
		HighPercent:       c.Images.HighThresholdPercent,
		LowPercent:        c.Images.LowThresholdPercent,
		InodesHighPercent: c.Images.InodesHighThresholdPercent,
		InodesLowPercent:  c.Images.InodesLowThresholdPercent,
		FutileShare:       c.Images.FutileShare,
		MinimumAge:        time.Duration(c.Images.MinimumAge),
		MaximumAge:        time.Duration(c.Images.MaximumAge),
	}
}
