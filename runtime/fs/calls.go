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

// calls are this process's. A call that hangs holds a thread, so that there must
// be no second one for the same filesystem, whoever asks.
var calls = pending{busy: make(map[uint64]chan struct{})}

// pending are kernel calls that nothing can interrupt: one for each filesystem
// at a time, in a goroutine of its own that ends when the call does.
type pending struct {
	mu   sync.Mutex
	busy map[uint64]chan struct{} // by device; closed when the call has ended
}

// do opens path and makes the call. One that is under way there is waited for
// first: it may have begun before what the caller wants to see.
func (p *pending) do(ctx context.Context, dev uint64, path string, call func(fd int) error) error {
	ended, err := p.claim(ctx, dev)
	if err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		p.release(dev, ended)
		return fmt.Errorf("open: %w", err)
	}
	result := make(chan error, 1)
	go func() {
		err := call(fd)
		unix.Close(fd) // before the caller goes on: it may want to unmount
		p.release(dev, ended)
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pending) claim(ctx context.Context, dev uint64) (ended chan struct{}, err error) {
	for {
		p.mu.Lock()
		before, busy := p.busy[dev]
		if !busy {
			ended = make(chan struct{})
			p.busy[dev] = ended
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

func (p *pending) release(dev uint64, ended chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, dev)
	close(ended)
}

// xfsFreeEOFBlocks is XFS_IOC_FREE_EOFBLOCKS, _IOR('X', 58, struct xfs_fs_eofblocks),
// and xfsEOFMinFileSize is XFS_EOF_FLAGS_MINFILESIZE.
const (
	xfsFreeEOFBlocks  = 0x8080583a
	xfsEOFMinFileSize = 1 << 3
)

const (
	// flushes are so many that one of them waits for everything, and flushPause is between
	// them: it outlasts what the scheduler gives to a writer that keeps the worker waiting.
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

// flushInodeGC waits until xfs has given back what deleted files had. The call is
// for something else, to trim what was preallocated beyond the ends of files,
// and is restricted to files of a size that none has. It ends in
// xfs_inodegc_flush, which is what is wanted (xfs_blockgc_free_space, since 5.14;
// before that, nothing was freed in the background).
//
// One call can end too early: who deletes a file puts off work of the same CPU that is
// queued and has not begun (mod_delayed_work_on in xfs_inodegc_queue), and the flush does
// not wait for that then. Beside busy writers one call in five did so, and of four calls
// 4 ms apart always one did not, 2,000 times.
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
