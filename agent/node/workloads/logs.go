package workloads

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/runtime/podlogs"
)

// readLogs lists directories and dead links. Logs that cannot be read are left alone.
func (w *Workloads) readLogs() (logs container.Logs) {
	var (
		directories []podlogs.Directory
		links       []podlogs.Link
		err         error
	)
	w.Outside(func() {
		var linksErr error
		directories, err = withLogs(w.Config.Filesystems.PodLogs.Path, (*podlogs.Dir).Directories)
		links, linksErr = withLogs(w.Config.Containers.LogLinks, (*podlogs.Dir).DeadLinks)
		err = errors.Join(err, linksErr)
	})
	if err != nil {
		w.Conditions.Begin("logs", slog.LevelWarn, "the logs of pods cannot be read; what cannot is left alone", "error", err)
	} else {
		w.Conditions.End("logs", "the logs of pods can be read again")
		w.bookListedLogs(directories, links)
	}
	for _, d := range directories {
		logs.Directories = append(logs.Directories, container.LogDirectory{
			Entry: d.Entry, Modified: d.Modified, RetryAt: w.gate.Until(d.Entry),
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

// removeLog removes the log of a container that is about to be removed, and its rotated files. The
// kubelet removes only the logs of containers that it removes itself. Like the kubelet, ebb removes
// the log before the container: if the log cannot be removed, both are tried again.
func (e *executor) removeLog(path string, pod container.PodID) error {
	if path == "" || e.podLogs == "" || !e.logs {
		return nil
	}
	dir, err := podlogs.Open(e.podLogs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.RemoveLog(path, pod.UID)
}

// doLogs removes directories of logs, and dead links.
func (e *executor) doLogs(ctx context.Context, p container.LogPlan, pass kube.Pass) Report {
	done := Report{failed: make(map[string]error)}
	e.removeLogs(ctx, e.podLogs, "log_directory", p.RemoveDirectories, pass, &done, func(d *podlogs.Dir, entry string) error {
		return d.RemoveDirectory(ctx, entry)
	})
	links := make([]container.LogDecision, 0, len(p.RemoveLinks))
	for _, entry := range p.RemoveLinks {
		links = append(links, container.LogDecision{Entry: entry, Reason: reasonDeadLink, Detail: "leads nowhere"})
	}
	e.removeLogs(ctx, e.links, "log_link", links, pass, &done, (*podlogs.Dir).RemoveLink)
	return done
}

// removeLogs removes entries of one directory. It asks again whether a pod is gone.
func (e *executor) removeLogs(ctx context.Context, path, kind string, entries []container.LogDecision, pass kube.Pass, done *Report, remove func(*podlogs.Dir, string) error) {
	if len(entries) == 0 {
		return
	}
	dir, err := podlogs.Open(path)
	if err != nil {
		return // gone, or not readable: the next look reports it
	}
	defer dir.Close()
	attempts := e.history.Begin(logEntries(kind, entries)...)
	e.history.Durable(ctx, attempts...)
	for n, l := range entries {
		why, unsure, attempt := "", false, attempts[n]
		if l.Reason == container.RemovedPodGone {
			why, unsure = notGone(ctx, pass, l.Pod)
			done.unsure = done.unsure || unsure
		}
		if ctx.Err() != nil || e.paused() {
			cancel(attempts[n:])
			return
		}
		if why != "" {
			e.metrics.spared.WithLabelValues(kind).Inc()
			e.log.Info("logs kept by the last check", "entry", l.Entry, "reason", why)
			attempt.Stays(why)
			continue
		}
		if err := remove(dir, l.Entry); err != nil {
			done.failed[l.Entry] = err
			attempt.Failed(err)
			e.metrics.failures.WithLabelValues(kind).Inc()
			continue
		}
		done.removed = append(done.removed, l.Entry)
		e.metrics.removed.WithLabelValues(kind, string(l.Reason)).Inc()
		attempt.Removed(nil)
		e.log.Info("logs removed", "entry", l.Entry, "kind", kind, "reason", string(l.Reason), "detail", l.Detail)
	}
}

// reasonDeadLink is why a link to a log is removed.
const reasonDeadLink container.Reason = "dead_link"
