package node

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/runtime/openfiles"
	"github.com/ebb-agent/ebb/runtime/podlogs"
)

// filesMost bounds how many files below the logs of pods are counted.
const filesMost = 200_000

// readUsage adds what has to be searched for in files: the logs of pods, and deleted files on these
// devices that are still open. It may take long, and needs no lock.
func readUsage(ctx context.Context, u *page.Usage, logs string, devices []uint64) {
	if logs == "" {
		u.Unknown = append(u.Unknown, "logs of pods: filesystems.podLogs.path is empty")
	} else if err := readLogs(ctx, u, logs); err != nil {
		u.Unknown = append(u.Unknown, "logs of pods, in part: "+err.Error())
	}
	open, err := openfiles.Deleted(ctx, "/proc", devices)
	if err != nil {
		u.Unknown = append(u.Unknown, "deleted files that are still open: "+err.Error())
	}
	if err != nil && !errors.Is(err, openfiles.ErrHidden) {
		return
	}
	u.OpenDeleted = &page.Open{By: []page.OpenBy{}}
	for _, p := range open {
		size := page.Size{Bytes: p.Bytes, Inodes: p.Files}
		u.OpenDeleted.Bytes, u.OpenDeleted.Inodes = u.OpenDeleted.Bytes+size.Bytes, u.OpenDeleted.Inodes+size.Inodes
		u.OpenDeleted.By = append(u.OpenDeleted.By, page.OpenBy{PID: p.PID, Command: p.Command, Size: size})
	}
}

var errTooMany = errors.New("too many files")

// readLogs adds up the logs of each pod. It follows no link: a process that may write there can have
// placed one.
func readLogs(ctx context.Context, u *page.Usage, logs string) error {
	root, err := os.OpenRoot(logs)
	if err != nil {
		return err
	}
	defer root.Close()
	sizes, seen := make(map[string]page.Size), 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), ignoreGone(err))
		}
		if seen++; seen > filesMost {
			return errTooMany
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		pod, _, _ := strings.Cut(name, "/")
		if st, ok := info.Sys().(*syscall.Stat_t); ok && pod != "." {
			size := sizes[pod]
			sizes[pod] = page.Size{Bytes: size.Bytes + uint64(st.Blocks)*openfiles.StatBlock, Inodes: size.Inodes + 1}
		}
		return nil
	})
	for dir, size := range sizes {
		one := page.Directory{Path: path.Join(logs, dir), Size: size}
		if pod, ok := podlogs.ParseDirectory(dir); ok && pod.Name != "" {
			one.Pod = pod.Namespace + "/" + pod.Name
		}
		u.Logs = append(u.Logs, one)
	}
	slices.SortFunc(u.Logs, func(a, b page.Directory) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Path, b.Path))
	})
	return err
}

// ignoreGone drops the error about a file that was deleted during the walk.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
