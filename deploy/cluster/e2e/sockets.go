package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// processes finds those of a program by its command line.
func processes(program string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has just ended
		}
		first, _, _ := bytes.Cut(cmdline, []byte{0})
		if filepath.Base(string(first)) == program {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

const (
	tcpListens  = "0A"       // TCP_LISTEN
	unixListens = "00010000" // __SO_ACCEPTCON
)

// listeners is what a process listens on, from its own network namespace's tables.
func listeners(pid int) ([]string, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	own, err := socketsOf(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "unix"} {
		text, err := os.ReadFile(filepath.Join(dir, "net", table))
		if os.IsNotExist(err) {
			continue // no IPv6 here
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if where, inode := listener(table, strings.Fields(line)); where != "" && own[inode] {
				all = append(all, where)
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

// listener reads a line of one of the tables; "" if nobody can connect there.
func listener(table string, fields []string) (where, inode string) {
	switch {
	case table == "unix":
		if len(fields) > 7 && fields[3] == unixListens {
			return "unix " + fields[7], fields[6]
		}
	case len(fields) > 9 && (fields[3] == tcpListens || strings.HasPrefix(table, "udp") && fields[0] != "sl"):
		return strings.TrimSuffix(table, "6") + " " + address(fields[1]), fields[9]
	}
	return "", ""
}

// address reads "0100007F:2506": words of the machine's byte order.
func address(text string) string {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(raw)%4 != 0 {
		return text
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	return fmt.Sprintf("%s:%d", net.IP(raw), number)
}

// socketsOf are the inodes of the sockets that a process has open.
func socketsOf(dir string) (map[string]bool, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, "fd", e.Name()))
		if err != nil {
			continue // closed since
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return own, nil
}
