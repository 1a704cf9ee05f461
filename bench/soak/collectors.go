package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/bench/soak/oracle"
	"github.com/ebb-agent/ebb/tools/peers"
)

// volumePrefix begins the ID of a volume, before the name of its PersistentVolume.
const volumePrefix = "volume-"

func (b *fixture) inventoryFile() string { return filepath.Join(b.dir, "inventory.json") }
func (b *fixture) driverSocket() string  { return filepath.Join(b.dir, "csi.sock") }

// collectors returns the configuration of all collectors, with the shortest times that it allows.
func (c *controller) collectors() object {
	q := oracle.Quarantine.String()
	requests := func(d time.Duration) object {
		s := d.String()
		return object{"pending": s, "unissued": s, "issued": s, "refused": s}
	}
	csrs, patient := requests(oracle.RequestsAfter), requests(240*time.Hour)
	patient["name"] = oracle.PatientSigner
	csrs["mode"], csrs["signers"] = "enforce", []object{patient}
	return object{
		"pods": object{"mode": "enforce", "quarantine": q, "keep": oracle.PodsKept, "succeeded": object{"after": oracle.PodsAfter.String()},
			"failed": object{"perNamespace": oracle.FailedPerSpace, "perOwner": oracle.FailedPerOwner}},
		"jobs": object{"mode": "enforce"},
		"csrs": csrs,
		"leases": object{"mode": "enforce", "quarantine": q, "elections": []object{
			{"namespaces": []string{"soak-*"}, "names": []string{"soak-*"}, "after": oracle.ElectionsAfter.String(), "delete": true}}},
		"nodes": object{"mode": "enforce", "notReadyFor": oracle.NodesAfter.String(), "label": oracle.RetiredLabel, "inventory": object{"file": c.inventory}},
		"volumes": object{"mode": "enforce", "quarantine": q, "attachments": true, "csiNodes": true,
			"drivers": []object{{"name": oracle.Driver, "socket": c.driver}}},
	}
}

// writeInventory writes an inventory of all Nodes that were ever made, except those without a
// machine.
func (b *fixture) writeInventory() error {
	made, machines := time.Now(), []object{}
	b.driver.mu.Lock()
	for _, s := range b.driver.names {
		if s.Kind.Kind == "Node" && !s.NoMachine() {
			machines = append(machines, object{"name": s.Name})
		}
	}
	b.driver.mu.Unlock()
	data, err := json.Marshal(object{"version": 1, "time": made.UTC().Format(time.RFC3339), "complete": true, "count": len(machines), "nodes": machines})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(b.inventoryFile()+".new", data, 0o600), os.Rename(b.inventoryFile()+".new", b.inventoryFile()))
}

// lookAtVolumes reports to the oracle which volumes of before have lost their data since the last
// look. It returns the volumes that have data.
func (b *fixture) lookAtVolumes(before []string) []string {
	for _, id := range before {
		if !b.driver.volumes.Has(id) {
			b.oracle.Erased(time.Now(), strings.TrimPrefix(id, volumePrefix))
		}
	}
	return b.driver.volumes.Volumes()
}

// confirmRestore does what a person does who has checked the cluster after a restore of etcd.
func (b *fixture) confirmRestore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if c, err := leader(ctx, b.controllers); err == nil {
		_ = peers.Request(ctx, peers.UnixClient(c.socket()), http.MethodPost, "http://ebb/control/confirm-restore", nil, nil) // the next look tries again
	}
}
