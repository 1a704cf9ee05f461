package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/ebb-agent/ebb/bench/soak/plan"
)

// compacted makes etcd forget all but the newest state.
func (f *faults) compacted(ctx context.Context, _ plan.Fault) error {
	ctx, cancel := healed(ctx)
	defer cancel()
	rev, err := f.watcher.catchUp(ctx)
	if err != nil {
		return err
	}
	return f.watcher.etcd.compact(ctx, rev)
}

func (f *faults) defragmented(ctx context.Context, _ plan.Fault) error {
	ctx, cancel := healed(ctx)
	defer cancel()
	return f.watcher.etcd.defragment(ctx)
}

// restored restores etcd to its state before the fault began, with all API servers down, as etcd's
// manual says. Its revisions go backwards.
func (f *faults) restored(ctx context.Context, x plan.Fault) error {
	backup, err := f.backup()
	if err != nil {
		return err
	}
	sleep(ctx, x.Lasts)
	ctx, cancel := healed(ctx)
	defer cancel()
	// No request of the driver is in flight during the restore, and the driver knows the UIDs that
	// exist afterwards.
	f.driver.quiet.Lock()
	defer f.driver.quiet.Unlock()
	if err := errors.Join(f.cp.ControllerManager.Kill(), f.cp.APIServer.Kill(), f.second.Kill()); err != nil {
		return err
	}
	if _, err := f.watcher.catchUp(ctx); err != nil {
		return err
	}
	f.watcher.stop()
	if err := errors.Join(f.cp.Etcd.Kill(), replace(f.cp.EtcdDir(), backup), f.cp.Etcd.Start(ctx)); err != nil {
		return err
	}
	if err := f.watcher.begin(); err != nil {
		return err
	}
	f.driver.restored(f.oracle.UIDs())
	for _, c := range f.apiServers() {
		if err := c.Start(ctx); err != nil {
			return err
		}
	}
	if err := f.cp.ControllerManager.Start(ctx); err != nil {
		return err
	}
	return f.normal(ctx) // a condition of that time may be back
}

// backup copies etcd's directory. etcd is paused during that, so that the copy is as a crash would
// leave it.
func (f *faults) backup() (string, error) {
	dir, err := os.MkdirTemp(filepath.Dir(f.dir), "ebb-soak-etcd-")
	if err != nil {
		return "", err
	}
	f.backups = append(f.backups, dir)
	if err := f.cp.Etcd.Pause(); err != nil {
		return "", err
	}
	copied := filepath.Join(dir, "etcd")
	return copied, errors.Join(os.CopyFS(copied, os.DirFS(f.cp.EtcdDir())), f.cp.Etcd.Resume())
}
