package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/runtime/podlogs"
)

// readLogs lists directories and dead links. What cannot be read is left alone.
func (a *Agent) readLogs() (logs container.Logs) {
	directories, err := withLogs(a.cfg.Filesystems.PodLogs.Path, (*podlogs.Dir).Directories)
	links, linksErr := withLogs(a.cfg.Containers.LogLinks, (*podlogs.Dir).DeadLinks)
	if err := errors.Join(err, linksErr); err != nil {
		a.said.once(a.log, "logs", slog.LevelWarn, "the logs of pods cannot be read; what cannot is left alone", "error", err)
	} else {
		a.said.clear(a.log, "logs", "the logs of pods can be read again")
	}
	for _, d := range directories {
		logs.Directories = append(logs.Directories, container.LogDirectory{
			Entry: d.Entry, Modified: d.Modified, RetryAt: a.dead.failures[d.Entry].until,
			Pod: container.PodID{UID: d.Pod.UID, Namespace: d.Pod.Namespace, Name: d.Pod.Name},
		})
	}
	for _, l := range links {
		logs.DeadLinks = append(logs.DeadLinks, container.LogLink{Entry: l.Entry, ContainerID: l.ContainerID})
	}
	return logs
}

func withLogs[T any](path string, f func(*podlogs.Dir) ([]T, error)) ([]T, error) {
	if path == "" {
		return nil, nil
	}
	dir, err := podlogs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no kubelet has run here
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return f(dir)
}

// reapLogs removes directories of logs, and dead links.
func (r *reaper) reapLogs(ctx context.Context, p container.LogPlan, pass kube.Pass) reaped {
	done := reaped{failed: make(map[string]error)}
	r.removeLogs(ctx, r.podLogs, "log_directory", p.RemoveDirectories, pass, &done, func(d *podlogs.Dir, entry string) error {
		return d.RemoveDirectory(ctx, entry)
	})
	links := make([]container.LogDecision, 0, len(p.RemoveLinks))
	for _, entry := range p.RemoveLinks {
		links = append(links, container.LogDecision{Entry: entry, Reason: reasonDeadLink, Detail: "leads nowhere"})
	}
	r.removeLogs(ctx, r.links, "log_link", links, pass, &done, (*podlogs.Dir).RemoveLink)
	return done
}

// removeLogs removes entries of one directory. Whether a pod is gone is asked again.
func (r *reaper) removeLogs(ctx context.Context, path, kind string, entries []container.LogDecision, pass kube.Pass, done *reaped, remove func(*podlogs.Dir, string) error) {
	if len(entries) == 0 {
		return
	}
	dir, err := podlogs.Open(path)
	if err != nil {
		return // gone, or not readable: the next look says so
	}
	defer dir.Close()
	for _, e := range entries {
		why := ""
		if e.Reason == container.RemovedPodGone {
			why = notGone(ctx, pass, e.Pod)
		}
		if ctx.Err() != nil {
			return
		}
		if why != "" {
			r.metrics.reapSpared.WithLabelValues(kind).Inc()
			r.log.Info("logs stay after all", "entry", e.Entry, "reason", why)
			continue
		}
		if err := remove(dir, e.Entry); err != nil {
			done.failed[e.Entry] = err
			r.metrics.reapFailures.WithLabelValues(kind).Inc()
			continue
		}
		done.removed = append(done.removed, e.Entry)
		r.metrics.reaped.WithLabelValues(kind, string(e.Reason)).Inc()
		r.log.Info("logs removed", "entry", e.Entry, "kind", kind, "reason", string(e.Reason), "detail", e.Detail)
	}
}

// reasonDeadLink is why a link to a log goes.
const reasonDeadLink container.Reason = "dead_link"
