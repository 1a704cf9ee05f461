package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockFD is the lock, which this process holds for as long as anything runs here.
const lockFD = 3

// beInit sets the machine up, starts the command, and buries the dead until the
// command is among them. All that still runs then is killed by the kernel.
func beInit(told string) (status int, err error) {
	unix.CloseOnExec(lockFD)
	var s setup
	if err := json.Unmarshal([]byte(told), &s); err != nil {
		return 0, fmt.Errorf("read setup: %w", err)
	}
	wd, err := os.Getwd()
	if err != nil {
		return 0, fmt.Errorf("find working directory: %w", err)
	}
	if err := s.build(); err != nil {
		return 0, err
	}
	name, err := exec.LookPath(s.Command[0])
	if err != nil {
		return 0, fmt.Errorf("find command: %w", err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// Not os/exec: its Wait and the one below would take each other's dead.
	pid, err := syscall.ForkExec(name, s.Command, &syscall.ProcAttr{
		Dir:   wd,
		Env:   append(os.Environ(), "EBB_CLUSTER_CGROUP="+Cgroup(s.Dir), "EBB_CLUSTER_NAME="+s.Name),
		Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		for sig := range signals {
			// Fails if it has just ended, which the loop below sees.
			_ = syscall.Kill(pid, sig.(syscall.Signal))
		}
	}()
	return bury(pid)
}

// bury waits for children, of which orphans become this process's own, until one
// of them is pid.
func bury(pid int) (int, error) {
	for {
		var ws syscall.WaitStatus
		dead, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for command: %w", err)
		case dead == pid && ws.Signaled():
			return 128 + int(ws.Signal()), nil
		case dead == pid:
			return ws.ExitStatus(), nil
		}
	}
}
