// Command demo shows ebb at work on a real, throwaway node: a loopback ext4 filesystem,
// a private containerd, containers that really run, and the ebb-agent binary that
// people install. A person is meant to watch it. It ends with a summary, one line of
// JSON, and exit status 0 only if ebb kept all its promises.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

func main() {
	agent := flag.String("agent", "bin/ebb-agent", "the ebb-agent binary to show")
	results := flag.String("results", "bin", "where demo.json goes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Minute, errors.New("the demo takes longer than ten minutes"))
	err := run(ctx, *agent, *results)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo: something went wrong:", err)
		os.Exit(1)
	}
}

const (
	mib       = 1 << 20
	diskBytes = 768 * mib
)

// demo is one run of the demo.
type demo struct {
	screen  *screen
	command string // the ebb binary, beside the agent's
	node    *node.Node
	cast    *cast
	agent   *agentrun.Process
	story   *story
	opts    agentrun.Options
}

func run(ctx context.Context, binary, results string) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("needs root: it makes a loop device, mounts it and runs containers")
	}
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("no agent to show (make build): %w", err)
	}
	binary, err = filepath.Abs(binary)
	if err != nil {
		return err
	}
	d := &demo{screen: newScreen(os.Stdout), command: filepath.Join(filepath.Dir(binary), "ebb")}
	d.screen.title("ebb keeps the disk of a container node from filling up. Everything below is real:",
		"a filesystem on a loop device, a containerd, containers, programs in this kernel.")
	defer func() { err = errors.Join(err, d.clean()) }()
	for _, step := range []func(context.Context) error{
		d.buildNode, func(ctx context.Context) error { return d.startAgent(ctx, binary) },
		d.useImages, d.useWhileStopped, d.readEverything, d.ask, d.fillDisk, d.look,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	figures, err := d.summary()
	if err != nil {
		return err
	}
	if err := result.Write(results, "demo", figures); err != nil {
		return err
	}
	return figures.verdict()
}

func (d *demo) buildNode(ctx context.Context) error {
	d.screen.step("A throwaway node")
	n, err := node.Start(ctx, node.Config{Name: "demo", FS: "ext4", SizeBytes: diskBytes})
	if err != nil {
		return err
	}
	d.node, d.cast = n, newCast()
	version, err := n.Client().Version(ctx)
	if err != nil {
		return err
	}
	d.screen.say("node", "%d MiB ext4 on a loop device, containerd %s", diskBytes/mib, version.Version)
	if err := d.cast.importAll(ctx, n); err != nil {
		return err
	}
	d.screen.say("images", "%d, built on the spot; all share a base layer of %d MiB, %s and %s share one more",
		len(d.cast.images), baseBytes/mib, sharingOne, sharingTwo)
	return d.gauge()
}

func (d *demo) gauge() error {
	u, err := d.node.Usage()
	if err == nil {
		d.screen.gauge(u.UsedPercent)
	}
	return err
}

func (d *demo) startAgent(ctx context.Context, binary string) error {
	c := agentrun.ConfigFor(d.node)
	c.Images.MinimumAge = 0
	c.Images.Keep = []string{d.cast.kept().Name}
	d.story = newStory(d.screen, d.cast)
	d.opts = agentrun.Options{Binary: binary, Dir: d.node.Dir(), Config: c, OnLine: d.story.line}
	d.screen.thresholds(float64(c.Images.HighThresholdPercent), float64(c.Images.LowThresholdPercent))
	d.screen.step("ebb-agent: reclaim starts at %d %%, ends at %d %%, and %s is kept by a rule",
		c.Images.HighThresholdPercent, c.Images.LowThresholdPercent, short(d.cast.kept().Name))
	var err error
	d.agent, err = agentrun.Start(ctx, d.opts)
	return err
}

// useImages runs a container from every image, one after the other, so that the order
// of last use is known. One container keeps running.
func (d *demo) useImages(ctx context.Context) error {
	d.screen.step("Containers use the images, the last one named is the newest")
	for _, i := range d.cast.images {
		if i.Name == d.cast.running().Name {
			if _, err := d.node.Run(ctx, node.RunSpec{ID: "running", Image: i.Name}); err != nil {
				return err
			}
			d.screen.say("running", "%s stays: its container sleeps", short(i.Name))
			continue
		}
		if err := d.runTrue(ctx, i.Name); err != nil {
			return err
		}
	}
	return nil
}

// runTrue runs `true` in a container and removes it at once.
func (d *demo) runTrue(ctx context.Context, image string) error {
	began := time.Now()
	c, err := d.node.Run(ctx, node.RunSpec{ID: "once", Image: image, Args: []string{"true"}})
	if err != nil {
		return err
	}
	if _, err := c.Wait(ctx); err != nil {
		return err
	}
	if err := c.Delete(ctx); err != nil {
		return err
	}
	d.cast.used(image)
	d.screen.say("used", "%-9s ran `true`; its container lived for %d ms and is gone", short(image), time.Since(began).Milliseconds())
	return nil
}

// useWhileStopped uses the oldest image while no agent runs.
func (d *demo) useWhileStopped(ctx context.Context) error {
	d.screen.step("The agent is stopped; an image is used while nobody looks")
	if err := d.agent.Stop(); err != nil {
		return err
	}
	if err := d.runTrue(ctx, d.cast.oldest()); err != nil {
		return err
	}
	var err error
	if d.agent, err = agentrun.Start(ctx, d.opts); err != nil {
		return err
	}
	d.screen.say("agent", "is back; the kernel has kept record")
	return d.awaitOrder(ctx)
}

// readEverything reads every file of every layer from the host.
func (d *demo) readEverything(ctx context.Context) error {
	d.screen.step("A scanner on the host reads every file of every image")
	bytes, err := readAll(d.node.Root())
	if err != nil {
		return err
	}
	d.screen.say("read", "%d MiB, and no image got newer: only running it is using it", bytes/mib)
	return d.awaitOrder(ctx)
}

// awaitOrder waits until the agent's order of last use is the true one. After a start
// that takes the agent a moment.
func (d *demo) awaitOrder(ctx context.Context) error {
	wrong := ""
	err := benchmark.Until(ctx, 20*time.Millisecond, 5*time.Minute, "the agent's order of last use stays wrong", func(ctx context.Context) (bool, error) {
		e, err := d.agent.Images(ctx)
		wrong = d.cast.misplaced(e)
		return err == nil && wrong == "", err
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, wrong)
	}
	return nil
}

// ask shows ebb's output before anything is removed.
func (d *demo) ask(ctx context.Context) error {
	d.screen.step("What does ebb see, what would go, and why does one stay?")
	return d.ebb(ctx, []string{"images"}, []string{"plan", "--free", "100Mi"}, []string{"why", d.cast.kept().Name})
}

// look shows ebb's output after the removals.
func (d *demo) look(ctx context.Context) error {
	d.screen.step("What went, what it freed, and what is left")
	return d.ebb(ctx, []string{"history"}, []string{"images"})
}

// ebb runs the command ebb and shows its output.
func (d *demo) ebb(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		out, err := exec.CommandContext(ctx, d.command, append(args, "--socket", d.opts.Config.Server.AdminSocket)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ebb %s: %w: %s", args[0], err, out)
		}
		d.screen.output("ebb "+strings.Join(args, " "), string(out))
	}
	return nil
}

// fillDisk writes until the high threshold is crossed, and waits until a reclaim run
// has ended.
func (d *demo) fillDisk(ctx context.Context) error {
	d.screen.step("Something fills the disk")
	for target := 10.0; target < d.screen.high; target += 10 {
		u, err := d.node.Usage()
		if err != nil {
			return err
		}
		if u.UsedPercent < target {
			if err := d.node.FillTo("log", target); err != nil {
				return err
			}
			if err := d.gauge(); err != nil {
				return err
			}
		}
	}
	if err := d.node.FillTo("log", d.screen.high-1.5); err != nil {
		return err
	}
	if err := d.gauge(); err != nil {
		return err
	}
	u, err := d.node.Usage()
	if err != nil {
		return err
	}
	if err := d.node.Fill("log", int64(u.CapacityBytes/100*2)); err != nil { // across the high threshold in one go
		return err
	}
	if _, err := agentrun.Next(ctx, d.agent, d.story.ended); err != nil {
		return fmt.Errorf("the disk was not brought low: %w", err)
	}
	return nil
}

// clean stops the agent and removes the node.
func (d *demo) clean() error {
	var errs []error
	if d.agent != nil {
		errs = append(errs, d.agent.Stop(), agentrun.Unload(d.opts.Config))
	}
	if d.node != nil {
		errs = append(errs, d.node.Close())
	}
	return errors.Join(errs...)
}
