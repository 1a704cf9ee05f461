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

// scenes are the play, in its order: each finds what the ones before have left.
var scenes = []struct {
	name, title string
	play        func(*bed) error
}{
	{"cluster", "A cluster of one node", (*bed).setUp},
	{"network", "Pods have a network, and reach the API server", (*bed).tryNetwork},
	{"install", "ebb from its image and its manifests", (*bed).install},
	{"enforce", "It is allowed to act", (*bed).enforce},
	{"prometheus", "Prometheus", (*bed).scrape},
	{"reclaim", "A disk that fills", (*bed).reclaim},
	{"cascade", "A Deployment deleted in each way", (*bed).cascade},
	{"roll", "A new version of the agent, under load", (*bed).roll},
	{"leader", "The leader is killed", (*bed).leader},
	{"rights", "What it asked the API server for", (*bed).rights},
	{"doors", "What it listens on", (*bed).doors},
	{"uninstall", "Gone without a trace", (*bed).uninstall},
	{"helm", "The same by helm", (*bed).helmed},
	{"units", "The same script on a machine with systemd", (*bed).units},
}

// play is the run, from the inside of the machine.
func play(ctx context.Context, o options) error {
	b, err := newBed(ctx, o)
	if err != nil {
		return err
	}
	for _, s := range scenes {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), s.name) {
			continue
		}
		b.notes.begin(s.title)
		if err := s.play(b); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			return errors.Join(err, b.collect())
		}
		b.notes.end()
	}
	b.notes.line("\nAll checks hold.")
	return errors.Join(b.collect(), b.notes.save(filepath.Join(o.out, transcriptFile)))
}

// collect brings logs out of the machine.
func (b *bed) collect() error {
	// Whatever ended the run, this is to be had.
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
