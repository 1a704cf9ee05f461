package fs

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls are the pending calls of this process. A call that hangs holds a thread, so there must be
// at most one of each kind for each filesystem.
var calls = pending{busy: make(map[callKey]chan struct{})}

// pending are kernel calls that nothing can interrupt: one of each kind for each filesystem
// at a time, in a goroutine of its own that ends when the call does.
type pending struct {
	mu   sync.Mutex
	busy map[callKey]chan struct{} // closed when the call has ended
}

type callKey struct {
	dev  uint64
	what string
}

// do opens path and makes the call. It first waits for such a call in progress on the same filesystem:
// that call may have begun before the changes that the caller wants to see.
func (p *pending) do(ctx context.Context, key callKey, path string, call func(fd int) error) error {
	ended, err := p.claim(ctx, key)
	if err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		p.release(key, ended)
		return fmt.Errorf("open: %w", err)
	}
	result := make(chan error, 1)
	go func() {
		err := call(fd)
		unix.Close(fd) // before the caller continues: it may unmount
		p.release(key, ended)
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pending) claim(ctx context.Context, key callKey) (ended chan struct{}, err error) {
	for {
		p.mu.Lock()
		before, busy := p.busy[key]
		if !busy {
			ended = make(chan struct{})
			p.busy[key] = ended
		}
		p.mu.Unlock()
		if !busy {
			return ended, nil
		}
		select {
		case <-before:
		case <-ctx.Done():
			return nil, fmt.Errorf("an earlier call has not ended: %w", context.Cause(ctx))
		}
	}
}

func (p *pending) release(key callKey, ended chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, key)
	close(ended)
}

// xfsFreeEOFBlocks is XFS_IOC_FREE_EOFBLOCKS, _IOR('X', 58, struct xfs_fs_eofblocks),
// and xfsEOFMinFileSize is XFS_EOF_FLAGS_MINFILESIZE.
const (
	xfsFreeEOFBlocks  = 0x8080583a
	xfsEOFMinFileSize = 1 << 3
)

const (
	// flushes is the number of calls of which one almost surely waits for everything. flushPause is the
	// pause between them: it is longer than the scheduler's slice for a writer that keeps the
	// worker waiting.
	flushes    = 4
	flushPause = 4 * time.Millisecond
)

// eofBlocks is struct xfs_fs_eofblocks in fs/xfs/libxfs/xfs_fs.h.
type eofBlocks struct {
	version, flags uint32
	uid, gid, prid uint32
	_              uint32
	minFileSize    uint64
	_              [12]uint64
}

// flushInodeGC waits until xfs has freed the space of deleted files. The ioctl is for something
// else: it trims the blocks preallocated beyond the ends of files, and here it is restricted to
// files of a size that none has. It ends in xfs_inodegc_flush, which is the part wanted here
// (xfs_blockgc_free_space, since 5.14; before that, xfs freed nothing in the background).
//
// One call can return too early. A deletion delays work that is queued on the same CPU and has not
// begun (mod_delayed_work_on in xfs_inodegc_queue), and the flush does not wait for delayed work.
// Beside busy writers one call in five returned too early. Of four calls 4 ms apart at least one
// always waited, in 2,000 tries. On a machine with three busy processes for each CPU, one try in
// fifty returned too early. So a caller that misses space looks again a moment later.
func flushInodeGC(fd int) error {
	none := eofBlocks{version: 1, flags: xfsEOFMinFileSize, minFileSize: math.MaxInt64}
	for n := range flushes {
		if n > 0 {
			time.Sleep(flushPause)
		}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), xfsFreeEOFBlocks, uintptr(unsafe.Pointer(&none))); errno != 0 {
			return errno
		}
	}
	return nil
}
