// Command ebb-agent keeps the image filesystem of one Kubernetes node from filling up. When the
// disk reaches a threshold, it removes unused container images, least recently used first, and only
// as many as needed.
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
	"github.com/spf13/pflag"

	"github.com/ebb-agent/ebb/agent/node"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/lock"
	"github.com/ebb-agent/ebb/agent/node/pods"
	"github.com/ebb-agent/ebb/agent/node/unload"
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

const long = `ebb-agent removes unused container images from one Kubernetes node.

Its programs in the kernel watch how full the filesystem of the images is, and which images
are used. When the disk reaches its high threshold, the agent removes unused images, oldest
use first, until the disk is at its low threshold. It also removes dead containers and the
logs of pods that are gone. "ebb why" and the log have the reason for each decision.

In mode observe, the default, it removes nothing, and only logs its decisions. It removes
images once its configuration sets mode: enforce.

It runs as root, beside containerd. If it stops, the kernel keeps recording image use until
it runs again.

Exit codes: 0 stopped by a signal, 1 error.`

const examples = `  # print the defaults, with an explanation of each field
  ebb-agent config default

  # observe: log what would be removed, remove nothing
  ebb-agent

  # enforce, when you agree with its decisions
  printf 'mode: enforce\n' >/etc/ebb/agent.yaml && ebb-agent --config /etc/ebb/agent.yaml

  # the decision about each image; what would go now; who fills the disk
  ebb images --socket /run/ebb/agent.sock
  ebb plan --socket /run/ebb/agent.sock
  ebb top --socket /run/ebb/agent.sock

  # without a command of ebb: dead containers; how much of each image layer is ever read
  curl -s --unix-socket /run/ebb/agent.sock http://ebb/containers
  curl -s --unix-socket /run/ebb/agent.sock http://ebb/heat

  # the programs in the kernel, their cost, and those that could not be loaded
  ebb-agent report

  # after the last stop: remove everything of ebb from this node
  ebb-agent unload --config /etc/ebb/agent.yaml`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cmd := command(stdout, stderr)
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

func command(stdout, stderr io.Writer) *cobra.Command {
	var file configFile
	cmd := &cobra.Command{
		Use:           "ebb-agent [--config FILE]",
		Short:         "Remove unused images from a Kubernetes node when its disk fills",
		Long:          long,
		Example:       examples,
		Args:          cobra.NoArgs,
		Version:       program.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := file.load()
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, file.path, stderr)
		},
	}
	file.flag(cmd.Flags())
	cmd.AddCommand(
		reportCommand(stdout), unloadCommand(stdout, stderr), dialCommand(stdout),
		program.ConfigCommand("ebb-agent", func() error { return config.Print(stdout, config.Default()) }),
	)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cmd
}

// configFile is the configuration file of a command.
type configFile struct{ path string }

func (c *configFile) flag(f *pflag.FlagSet) {
	f.StringVar(&c.path, "config", "", "configuration file (YAML); without it the defaults apply")
}

func (c *configFile) load() (config.Config, error) {
	if c.path == "" {
		return config.Default(), nil
	}
	return config.Load(c.path)
}

// handOver is how long an agent waits for its predecessor, which may still be writing its state.
// After that it refuses to run as a second agent.
const handOver = 2 * time.Second

// askUninstalled is how long an agent that stops waits for the API server's answer.
const askUninstalled = 3 * time.Second

// dial connects to the runtime. It searches for the socket each time, because the runtime may start
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
	api, err := work(ctx, cfg, file, log)
	if e := alone.Release(); e != nil {
		log.Debug("release lock", "error", e)
	}
	if api != nil && uninstalled(api, log) {
		err = errors.Join(err, unload.Run(context.WithoutCancel(ctx), unload.Options{
			Config: cfg, KeepState: true, Self: lock.Self(program.Version()), Out: io.Discard, Log: log}))
	}
	return err
}

// uninstalled reports whether ebb is being removed from the cluster. Then no later agent will use
// what this one leaves in the kernel. The chart sets DAEMONSET_NAME if it grants the right to read
// the DaemonSet.
func uninstalled(api *kube.APIServer, log *slog.Logger) bool {
	name := os.Getenv("DAEMONSET_NAME")
	if name == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), askUninstalled)
	defer cancel()
	reason, err := api.Uninstalled(ctx, os.Getenv("POD_NAMESPACE"), name)
	if err != nil {
		log.Warn("kernel programs stay: the API server does not say whether ebb is being uninstalled", "error", err)
	} else if reason != "" {
		log.Info("ebb is being uninstalled: kernel programs and leases are removed from the node", "reason", reason)
	}
	return reason != ""
}

// work runs the agent until ctx is done. It returns the API server if that is the source of pods,
// else nil.
func work(ctx context.Context, cfg config.Config, file string, log *slog.Logger) (*kube.APIServer, error) {
	program.LogStart(log, cfg.Mode == config.ModeEnforce, file)
	debug.SetGCPercent(gcPercent)
	program.LimitMemory(log)
	probes, noProbes := loadProbes(ctx, cfg, log)
	if errors.Is(noProbes, bpf.ErrInUse) {
		return nil, fmt.Errorf("kernel.pinDirectory: %w", noProbes) // another agent works on this node
	}
	if probes != nil {
		defer func() {
			if err := probes.Close(); err != nil {
				log.Debug("close kernel programs", "error", err)
			}
		}()
	}
	options := node.Options{
		Config: cfg, NoProbes: noProbes, Disk: node.RealDisk{}, Log: log,
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
		log.Warn("cannot name the containers that fill the disk", "reason", err)
	}
	options.Rested = func() { slim(log) }
	var err error
	if options.Pods, err = podSource(cfg.Pods); err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	api, ok := options.Pods.(*kube.APIServer)
	if ok && cfg.Pods.APIServer.Events {
		options.Events = api
	}
	agent, err := node.New(options)
	if err != nil {
		return nil, err
	}
	return api, agent.Run(ctx)
}

// podSource makes the source of this node's pods; nil if none is configured.
func podSource(c config.Pods) (pods.Source, error) {
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
			Namespace:  os.Getenv("POD_NAMESPACE"), DaemonSet: os.Getenv("DAEMONSET_NAME"),
		})
	}
	return nil, nil
}

var heatModes = map[string]bpf.HeatMode{
	config.HeatAuto: bpf.HeatAuto, config.HeatOff: bpf.HeatOff, config.HeatReads: bpf.HeatReads,
}

// loadProbes loads the kernel programs. The agent also works without them, so the error is for the
// log, except [bpf.ErrInUse].
func loadProbes(ctx context.Context, cfg config.Config, log *slog.Logger) (*bpf.Probes, error) {
	if !cfg.Kernel.Enabled {
		return nil, errors.New("switched off by kernel.enabled")
	}
	probes, err := bpf.Load(ctx, bpf.Options{
		PinDir: cfg.Kernel.PinDirectory, NoWriters: cfg.Writers.Top == 0, Heat: heatModes[cfg.Kernel.LayerHeat], Logger: log,
	})
	debug.FreeOSMemory() // parsing BTF takes much memory, once
	return probes, err
}
