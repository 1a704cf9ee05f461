package config

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/policy/cascade"
)

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
	between := func(field string, d Duration, least, most time.Duration) {
		if time.Duration(d) < least || time.Duration(d) > most {
			fail(field, "%s is not between %s and %s", d, Duration(least), Duration(most))
		}
	}
	oneOf("mode", string(c.Mode), string(Enforce), string(Observe))
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf("log.format", c.Log.Format, "json", "text")
	between("foregroundPatience", c.ForegroundPatience, time.Second, 24*time.Hour)
	between("aggregatedAbsence", c.AggregatedAbsence, 10*time.Second, 24*time.Hour)
	between("discoveryInterval", c.DiscoveryInterval, 30*time.Second, 24*time.Hour)
	between("requestTimeout", c.RequestTimeout, time.Second, 10*time.Minute)
	between("shutdownGrace", c.ShutdownGrace, 0, time.Minute)
	between("circuitBreaker.window", c.CircuitBreaker.Window, time.Second, 24*time.Hour)
	if c.CircuitBreaker.Deletions < 0 {
		fail("circuitBreaker.deletions", "%d is negative; 0 is no circuit breaker", c.CircuitBreaker.Deletions)
	}
	for field, e := range map[string]Envelope{"envelope": c.Envelope, "collectorEnvelope": c.CollectorEnvelope} {
		if e.Burst < 0 {
			fail(field+".burst", "%d is negative; 0 is no envelope", e.Burst)
		}
		if n := e.PerMinute; n < 1 || n > 1_000_000 {
			fail(field+".perMinute", "%d is not between 1 and 1000000", n)
		}
	}
	if n := c.Concurrency.Max; n < 1 || n > 1024 {
		fail("concurrency.max", "%d is not between 1 and 1024", n)
	}
	if n := c.Concurrency.Start; n < 1 || n > c.Concurrency.Max {
		fail("concurrency.start", "%d is not between 1 and concurrency.max (%d)", n, c.Concurrency.Max)
	}
	c.Collectors.problems(fail)
	c.namesProblems(fail)
	c.LeaderElection.problems(fail)
	c.Server.problems(fail)
	return errs
}

var (
	typePattern = regexp.MustCompile(`^(\*|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?)?$`)
	dnsLabel    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	dnsName     = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
)

func (c *Config) namesProblems(fail func(field, format string, args ...any)) {
	for field, list := range map[string][]string{"exclude.types": c.Exclude.Types, "orphanWithout": c.OrphanWithout} {
		for n, pattern := range list {
			if !typePattern.MatchString(pattern) {
				fail(fmt.Sprintf("%s[%d]", field, n), "%q is not a type as kubectl writes it: configmaps, deployments.apps, *.example.com", pattern)
			}
		}
	}
	for n, name := range c.Exclude.Namespaces {
		if !dnsLabel.MatchString(name) {
			fail(fmt.Sprintf("exclude.namespaces[%d]", n), "%q is not a namespace's name", name)
		}
	}
}

func (l *LeaderElection) problems(fail func(field, format string, args ...any)) {
	if !l.Enabled {
		return
	}
	if !dnsLabel.MatchString(l.Namespace) {
		fail("leaderElection.namespace", "%q is not a namespace's name", l.Namespace)
	}
	if !dnsName.MatchString(l.Name) {
		fail("leaderElection.name", "%q is not an object's name", l.Name)
	}
	// client-go's leader election requires this. A leader has given up before another one may
	// start, and has tried more than once.
	if l.RetryPeriod < Duration(100*time.Millisecond) {
		fail("leaderElection.retryPeriod", "%s is less than 100ms", l.RetryPeriod)
	}
	if float64(l.RenewDeadline) <= 1.2*float64(l.RetryPeriod) {
		fail("leaderElection.renewDeadline", "%s is not more than 1.2 times retryPeriod (%s)", l.RenewDeadline, l.RetryPeriod)
	}
	// A Lease counts in whole seconds.
	if l.LeaseDuration <= l.RenewDeadline || l.LeaseDuration%Duration(time.Second) != 0 {
		fail("leaderElection.leaseDuration", "%s is not a number of whole seconds above renewDeadline (%s)", l.LeaseDuration, l.RenewDeadline)
	}
}

// maxSocketPath is the size of sun_path without its terminating zero (unix(7)).
const maxSocketPath = 107

func (s *Server) problems(fail func(field, format string, args ...any)) {
	for field, address := range map[string]string{"server.address": s.Address, "server.healthAddress": s.HealthAddress} {
		if address == "" {
			continue
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			fail(field, "want host:port: %v", err)
		} else if _, err := strconv.ParseUint(port, 10, 16); err != nil { // 0: any free port
			fail(field, "port %q is not a number from 0 to 65535", port)
		}
	}
	if p := s.WebConfigFile; p != "" && (!filepath.IsAbs(p) || filepath.Clean(p) != p) {
		fail("server.webConfigFile", "%q is not a clean absolute path", p)
	}
	if s.WebConfigFile != "" && (s.Address == "" || s.HealthAddress == "") {
		fail("server.webConfigFile", "needs server.address, which it is for, and server.healthAddress: probes know no password")
	}
	if p := s.AdminSocket; p != "" && (!filepath.IsAbs(p) || filepath.Clean(p) != p || len(p) > maxSocketPath) {
		fail("server.adminSocket", "%q is not a clean absolute path of at most %d bytes", p, maxSocketPath)
	}
}

// Cascade returns the configuration of the cascade's rules.
func (c *Config) Cascade() cascade.Config {
	return cascade.Config{
		ForegroundPatience: time.Duration(c.ForegroundPatience), AbsenceAfter: time.Duration(c.AggregatedAbsence), ExcludedNamespaces: c.Exclude.Namespaces,
	}
}
