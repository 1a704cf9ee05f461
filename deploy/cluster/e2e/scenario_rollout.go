package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

const rolloutPage = "docs/rollout.md"

// pinDirectory is where the agent's programs are pinned.
const pinDirectory = "/sys/fs/bpf/ebb"

// canary lets the agent act on a node with a label, and undoes it.
func (b *fixture) canary() {
	b.follow(rolloutPage, "2. Canary")
	b.agentIs("enforce")
	b.notes.ok("the node with the label has the agent of the profile, which enforces")
	need(b.kubectl("label", "node", nodeName, "ebb/profile-"))
	b.agentIs("observe")
	b.upgrade("agent.profiles=null")
	b.ready()
	b.notes.ok("without the label it is the one that observes again")
}

// agentIs waits for an agent in this mode.
func (b *fixture) agentIs(mode string) {
	b.eventually("an agent that is to "+mode, func() error {
		images, err := b.images()
		if err == nil && images.Store.Mode != mode {
			err = fmt.Errorf("its mode is %s", images.Store.Mode)
		}
		return err
	})
}

// stop pauses all agents at once, then by a ConfigMap, and then deletes the DaemonSet.
func (b *fixture) stop() {
	do := func(command string) {
		if _, err := b.typed(command); err != nil {
			fail("%s: %w", rolloutPage, err)
		}
		b.progress.ran[command] = true
	}
	commands := b.printed(rolloutPage, "Stop at once")
	do(commands[0])
	if !strings.Contains(b.ebb(3, "status"), "paused") {
		fail("the status does not say that the agent is paused")
	}
	b.ebb(0, "resume")
	paused := func(want bool) func() error {
		return func() error {
			if has := strings.Contains(b.quietly(-1, "status", "--output=json"), "the file /etc/ebb-pause/pause"); has != want {
				return fmt.Errorf("paused by the file: %v", has)
			}
			return nil
		}
	}
	do(commands[1])
	b.eventually("an agent that is paused by the ConfigMap", paused(true))
	do(commands[2])
	b.eventually("an agent that goes on without the ConfigMap", paused(false))
	b.notes.ok("a ConfigMap pauses the agent, and its end lets it go on")
	do(commands[3])
	b.eventually("the programs to leave the kernel", func() error {
		entries, err := os.ReadDir(pinDirectory)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && len(entries) > 0 {
			err = fmt.Errorf("%s has %d entries", pinDirectory, len(entries))
		}
		return err
	})
	b.notes.ok("without its DaemonSet the agent is gone, and its programs with it")
	b.upgrade()
	b.ready()
	b.notes.ok("an upgrade brings it back")
}
