// Command ebb-agent keeps the image filesystem of one Kubernetes node low: it
// removes unused container images, least recently used first, when the disk
// reaches a line and only as far as needed.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/node"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/lock"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/cgroup"
	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/runtime/containerd/layout"
	"github.com/ebb-agent/ebb/runtime/kube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "ebb-agent:", err)
		os.Exit(1)
	}
}

const long = `ebb-agent keeps the disk of one Kubernetes node at low tide.

It watches, in the kernel, how full the filesystem of the container images is
and which images are used. When the disk reaches its high line, unused images
go, least recently used first, until the disk is at its low line: no sooner, no
further. Everything it keeps or removes has a reason: see /images and the log.
Until its configuration has mode: enforce it only says so, and removes nothing.

It runs as root beside containerd. Stopping it loses nothing: the kernel goes
on recording which images are used until the agent is back.`

const examples = `  # see the defaults, each explained
  ebb-agent --print-default-config

  # watch only: say what would go, remove nothing
  ebb-agent

  # when what it says is what you want: let it remove
  printf 'mode: enforce\n' >/etc/ebb/agent.yaml && ebb-agent --config /etc/ebb/agent.yaml

  # what it decided, image by image; who fills the disk; how much of each image is ever read
  curl -s http://127.0.0.1:9478/images
  curl -s http://127.0.0.1:9478/writers
  curl -s http://127.0.0.1:9478/heat

  # what runs in the kernel, what it costs, and what could not be loaded
  ebb-agent --probe-report

  # after the last stop: take everything of ebb off this node
  ebb-agent --unload --config /etc/ebb/agent.yaml`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cmd := command(stdout, stderr)
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

func command(stdout, stderr io.Writer) *cobra.Command {
	var file, output string
	var printDefault, unloading, report bool
	var leave leaving
	cmd := &cobra.Command{
		Use:           "ebb-agent [--config FILE]",
		Short:         "Keep the image filesystem of a Kubernetes node low",
		Long:          long,
		Example:       examples,
		Args:          cobra.NoArgs,
		Version:       program.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printDefault {
				return config.Print(stdout, config.Default())
			}
			if err := leave.only(unloading, cmd.Flags()); err != nil {
				return err
			}
			cfg := config.Default()
			if file != "" {
				var err error
				if cfg, err = config.Load(file); err != nil {
					return err
				}
			}
			if report {
				return probeReport(cmd.Context(), cfg.Kernel.PinDirectory, output, stdout)
			}
			if unloading {
				return leave.run(cmd.Context(), cfg, stdout, stderr)
			}
			return serve(cmd.Context(), cfg, file, stderr)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file (YAML); without it the defaults hold")
	cmd.Flags().BoolVar(&printDefault, "print-default-config", false, "print the default configuration with every field explained, and exit")
	cmd.Flags().BoolVar(&unloading, "unload", false, "remove all that ebb has left on this node (kernel programs, leases in containerd, state), and exit; not beside a running agent")
	leave.flags(cmd.Flags())
	cmd.Flags().BoolVar(&report, "probe-report", false, "say what is in the kernel, attached or not and why, and exit; a running agent is not disturbed")
	cmd.Flags().StringVar(&output, "output", "text", "of --probe-report: text or json")
	program.Choices(cmd, "output", "text", "json")
	cmd.MarkFlagsMutuallyExclusive("probe-report", "unload", "print-default-config")
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cmd
}

// handOver is how long an agent waits for its predecessor, which may still be
// writing its state, before it refuses to be the second one.
const handOver = 2 * time.Second

// dial connects to the runtime, which is looked for anew each time: it may come
// after the agent.
func dial(ctx context.Context, configured string, log *slog.Logger) (node.Runtime, error) {
	socket, err := layout.Socket(configured)
	if err != nil {
		return nil, err
	}
	rt, err := containerd.Connect(ctx, socket, log)
	if err != nil {
		return nil, err // a nil *Runtime in the interface would not be nil
	}
	if configured == layout.Auto {
		log.Info("container runtime found", "socket", socket, "layout", layout.Of(socket).Name, "reason", "runtime.socket is auto")
	}
	return rt, nil
}

// serve runs the agent until ctx is done.
func serve(ctx context.Context, cfg config.Config, file string, stderr io.Writer) error {
	log := program.Logger(cfg.Log.Level, cfg.Log.Format, stderr)
	alone, err := lock.Acquire(ctx, cfg.State.LockFile, handOver, lock.Self(program.Version()))
	if err != nil {
		return err
	}
	defer func() {
		if err := alone.Release(); err != nil {
			log.Debug("release lock", "error", err)
		}
	}()
	program.LogStart(log, cfg.Mode == config.ModeEnforce, file)
	debug.SetGCPercent(gcPercent)
	program.LimitMemory(log)
	probes, noProbes := loadProbes(ctx, cfg, log)
	if errors.Is(noProbes, bpf.ErrInUse) {
		return fmt.Errorf("kernel.pinDirectory: %w", noProbes) // another agent works on this node
	}
	if probes != nil {
		defer func() {
			if err := probes.Close(); err != nil {
				log.Debug("close kernel programs", "error", err)
			}
		}()
	}
	options := node.Options{
		Config: cfg, NoProbes: noProbes, Disk: node.RealDisk{}, Log: log, Metrics: node.NewMetrics(cfg),
		Dial: func(ctx context.Context) (node.Runtime, error) {
			return dial(ctx, cfg.Runtime.Socket, log)
		},
	}
	if probes != nil { // a nil *bpf.Probes in the interface would not be nil
		options.Probes = probes
	}
	if cgroups, err := cgroup.Open(); err == nil {
		defer cgroups.Close()
		options.Cgroups = cgroups
	} else {
		log.Warn("containers that fill the disk cannot be named", "reason", err)
	}
	options.Rested = func() { slim(log) }
	if options.Pods, err = podSource(cfg.Pods); err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	agent, err := node.New(options)
	if err != nil {
		return err
	}
	return agent.Run(ctx)
}

// podSource makes what knows the pods of this node; nil if nobody is to be asked.
func podSource(c config.Pods) (node.PodSource, error) {
	switch c.Source {
	case config.PodsFromKubelet:
		return kube.NewKubelet(kube.KubeletOptions{
			URL: c.Kubelet.URL, CAFile: c.Kubelet.CertificateAuthority, ServerName: c.Kubelet.ServerName,
			InsecureSkipVerify: c.Kubelet.InsecureSkipTLSVerify, TokenFile: c.Kubelet.TokenFile,
			CertFile: c.Kubelet.ClientCertificate, KeyFile: c.Kubelet.ClientKey,
		})
	case config.PodsFromAPIServer:
		return kube.NewAPIServer(kube.APIServerOptions{
			NodeName: cmp.Or(c.APIServer.NodeName, os.Getenv("NODE_NAME")), Kubeconfig: c.APIServer.Kubeconfig,
			ListSpread: time.Duration(c.APIServer.ListSpread),
		})
	}
	return nil, nil
}

var heatModes = map[string]bpf.HeatMode{
	config.HeatAuto: bpf.HeatAuto, config.HeatOff: bpf.HeatOff, config.HeatReads: bpf.HeatReads,
}

// loadProbes loads the kernel programs. Without them the agent still works, so
// an error is only handed on to be said.
func loadProbes(ctx context.Context, cfg config.Config, log *slog.Logger) (*bpf.Probes, error) {
	if !cfg.Kernel.Enabled {
		return nil, errors.New("switched off by kernel.enabled")
	}
	probes, err := bpf.Load(ctx, bpf.Options{
		PinDir: cfg.Kernel.PinDirectory, NoWriters: cfg.Writers.Top == 0, Heat: heatModes[cfg.Kernel.LayerHeat], Logger: log,
	})
	debug.FreeOSMemory() // parsing the kernel's type information takes a lot, once
	return probes, err
}
