package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/prometheus/procfs"
)

// processes returns the PIDs of a program, found by its command line.
func processes(program string) (pids []int, err error) {
	all, err := procfs.AllProcs()
	for _, p := range all {
		// A process that has just ended has no command line.
		if line, _ := p.CmdLine(); len(line) > 0 && filepath.Base(line[0]) == program {
			pids = append(pids, p.PID)
		}
	}
	return pids, err
}

const (
	tcpListens  = 0x0A    // TCP_LISTEN
	unixListens = 1 << 16 // __SO_ACCEPTCON
)

// listeners returns the addresses and sockets on which a process listens, from the
// tables of its network namespace.
func listeners(pid int) ([]string, error) {
	own, err := socketsOf(pid)
	if err != nil {
		return nil, err
	}
	tables, err := procfs.NewFS(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return nil, err
	}
	var all []string
	add := func(inode uint64, format string, args ...any) {
		if own[fmt.Sprintf("socket:[%d]", inode)] {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	// Netlink, which the deprecation advises, reports the caller's network namespace
	// instead.
	//lint:ignore SA1019 see above
	tcp, errTCP := tables.NetTCP()
	//lint:ignore SA1019 see above
	tcp6, errTCP6 := tables.NetTCP6()
	udp, errUDP := tables.NetUDP()
	udp6, errUDP6 := tables.NetUDP6()
	unix, errUNIX := tables.NetUNIX()
	if errors.Is(errTCP6, os.ErrNotExist) {
		errTCP6, errUDP6 = nil, nil // no IPv6 on this machine
	}
	if err := errors.Join(errTCP, errTCP6, errUDP, errUDP6, errUNIX); err != nil {
		return nil, err
	}
	for _, l := range append(tcp, tcp6...) {
		if l.St == tcpListens {
			add(l.Inode, "tcp %s:%d", l.LocalAddr, l.LocalPort)
		}
	}
	for _, l := range append(udp, udp6...) {
		add(l.Inode, "udp %s:%d", l.LocalAddr, l.LocalPort)
	}
	for _, l := range unix.Rows {
		if l.Flags&unixListens != 0 {
			add(l.Inode, "unix %s", l.Path)
		}
	}
	slices.Sort(all)
	return all, nil
}

// socketsOf returns the targets of a process's file descriptors; a socket reads
// "socket:[INODE]".
func socketsOf(pid int) (map[string]bool, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return nil, err
	}
	targets, err := p.FileDescriptorTargets()
	own := map[string]bool{}
	for _, target := range targets {
		own[target] = true
	}
	return own, err
}
