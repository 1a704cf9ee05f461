package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ebb-agent/ebb/policy/nodes"
)

// Longest is the maximum size of an inventory in bytes. It suffices for more than 50,000
// machines.
const Longest = 16 << 20

// Source is where the inventory is: one of File, URL and Command.
type Source struct {
	File    string
	URL     string
	CA      string // file with the authorities that verify URL's certificate; empty: the system's
	Token   string // file with a bearer token for URL; empty: none
	Command []string
	Timeout time.Duration
}

// Read reads the inventory once, within Timeout.
func (s Source) Read(ctx context.Context) (*nodes.Inventory, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("no answer within %s", s.Timeout))
	defer cancel()
	what, read := "read file "+s.File, s.file
	switch {
	case s.URL != "":
		what, read = "ask "+s.URL, s.http
	case len(s.Command) > 0:
		what, read = "run "+s.Command[0], s.command
	}
	data, err := read(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("inventory: %s: %w", what, err)
	}
	list, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("inventory: %s: what came is none: %w", what, err)
	}
	return list, nil
}

// errLong: the inventory is longer than Longest.
var errLong = fmt.Errorf("it has more than %d bytes", Longest)

// bounded reads all of r, or returns errLong.
func bounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, Longest+1))
	if err == nil && len(data) > Longest {
		err = errLong
	}
	return data, err
}

// file reads File in a goroutine of its own, because a network filesystem may hang.
func (s Source) file(ctx context.Context) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := readFile(s.File)
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f)
}
