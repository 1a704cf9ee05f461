package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// scenarios lists the steps of a run, in order. Each step builds on the state that
// earlier ones leave.
var scenarios = []struct {
	name, title string
	run         func(*fixture)
}{
	{"cluster", "A cluster of one node, with a registry and a Prometheus", (*fixture).setUp},
	{"network", "Pods have a network, and reach the API server", (*fixture).tryNetwork},
	{"image", "The image, in a registry", (*fixture).push},
	{"install", "ebb by helm", (*fixture).install},
	{"controller", "The controller, too", (*fixture).withController},
	{"prometheus", "Prometheus and Grafana", (*fixture).monitor},
	{"look", "A look", (*fixture).look},
	{"canary", "A node that enforces before the others", (*fixture).canary},
	{"enforce", "It is allowed to act", (*fixture).enforce},
	{"desk", "From a desk", (*fixture).desk},
	{"pages", "In a browser", (*fixture).pages},
	{"upgrade", "An upgrade", (*fixture).upgradeAsPrinted},
	{"stop", "All agents are stopped at once", (*fixture).stop},
	{"reclaim", "A disk that fills", (*fixture).reclaim},
	{"cascade", "A Deployment deleted in each way", (*fixture).cascade},
	{"collectors", "Three jobs of the controller manager, taken over and given back", (*fixture).collectors},
	{"roll", "A new version of the agent, under load", (*fixture).roll},
	{"leader", "The leader is killed", (*fixture).leader},
	{"rights", "What it asked the API server for", (*fixture).rights},
	{"listeners", "What it listens on", (*fixture).listeners},
	{"protect", "Metrics with TLS and a password", (*fixture).protect},
	{"bpffs", "A node without a bpffs", (*fixture).withoutBPFFS},
	{"uninstall", "Gone without a trace", (*fixture).uninstall},
	{"manifests", "The same without a registry and without helm", (*fixture).manifests},
	{"printed", "What the pages print", (*fixture).allPrinted},
	{"units", "The same script on a machine with systemd", (*fixture).units},
}

// inside runs the scenarios, inside the machine.
func inside(ctx context.Context, o options) error {
	b, err := newFixture(ctx, o)
	if err != nil {
		return err
	}
	for _, s := range scenarios {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), s.name) {
			continue
		}
		b.notes.begin(s.title)
		if err := attempt(func() { s.run(b) }); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			return errors.Join(err, b.collect())
		}
		b.notes.end()
	}
	b.notes.line("\nAll checks hold.")
	return errors.Join(b.collect(), b.notes.save(filepath.Join(o.out, transcriptFile)))
}

// collect copies logs out of the machine.
func (b *fixture) collect() error {
	// The logs are wanted even if the context has ended.
	b.Context = context.WithoutCancel(b.Context)
	for name, args := range map[string][]string{
		"objects.txt":    {"get", "all,events,configmaps,leases,nodes", "--all-namespaces", "--output=wide"},
		"pods.txt":       {"describe", "pods", "--all-namespaces"},
		"agent.log":      {"logs", "--namespace", namespace, "--selector=app.kubernetes.io/component=agent", "--tail=-1", "--prefix"},
		"controller.log": {"logs", "--namespace", namespace, "--selector=app.kubernetes.io/component=controller", "--tail=-1", "--prefix"},
	} {
		text, err := b.kubectl(args...)
		if err != nil {
			text += err.Error()
		}
		if err := os.WriteFile(filepath.Join(b.o.out, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("collect logs: %w", err)
		}
	}
	if _, err := b.run("cp", "-a", logs, filepath.Join(b.o.out, "logs")); err != nil {
		return fmt.Errorf("collect logs: %w", err)
	}
	return nil
}
