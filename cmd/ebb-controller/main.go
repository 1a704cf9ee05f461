// Command ebb-controller deletes the objects of a Kubernetes cluster whose owners are gone. It
// supports background, foreground and orphan deletion, as the API server requests them.
package main

import (
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
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "ebb-controller:", err)
		os.Exit(1)
	}
}

const long = `ebb-controller deletes objects of a cluster whose owners are gone. It supports background,
foreground and orphan deletion. It can also delete Pods, Jobs and other objects that have
ended, expired or lost their Node.

It can replace the garbage-collector-controller of the kube-controller-manager. To switch
that one off, set --controllers=*,-garbage-collector-controller there. Leave
--enable-garbage-collector at true, there and on the API server. Two active collectors at
once are safe, only redundant.

An object is deleted only if its owners are proven gone. A type that cannot be read, a
version that is not served, or an API server in trouble never leads to a deletion.
The log and ebb control decisions have the reason for each deletion. ebb control explain
shows why an object still exists.

In mode observe, the default, it records its decisions, and changes nothing in the cluster
but its own Lease. It deletes once its configuration sets mode: enforce. The rights that it
needs are in deploy/manifests/controller/rbac.yaml, and for enforce in
deploy/manifests/enforce/controller-rbac.yaml.

Of several instances, only the holder of the Lease acts. The others watch nothing.

Exit codes: 0 stopped by a signal, 1 error. If the Lease is lost, that is an error.`

const examples = `  # print the defaults, with an explanation of each field
  ebb-controller config default

  # observe beside an active collector: record what would be done, change nothing
  ebb-controller --kubeconfig ~/.kube/config

  # enforce, when you agree with its decisions
  printf 'mode: enforce\n' >controller.yaml && ebb-controller --kubeconfig ~/.kube/config --config controller.yaml

  # the last decisions; why an object still exists; which types cannot be read
  ebb control decisions
  ebb control explain replicaset/web-1
  ebb control ready

  # stop all requests; continue
  ebb control pause
  ebb control resume`

type flags struct{ kubeconfig, file string }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cmd := command(stdout, stderr)
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

func command(stdout, stderr io.Writer) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:           "ebb-controller [--kubeconfig FILE] [--config FILE]",
		Short:         "Delete objects of a cluster whose owners are gone",
		Long:          long,
		Example:       examples,
		Args:          cobra.NoArgs,
		Version:       program.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := config.Default()
			if f.file != "" {
				var err error
				if cfg, err = config.Load(f.file); err != nil {
					return err
				}
			}
			return serve(cmd.Context(), cfg, f, stderr)
		},
	}
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; without it the pod's own service account")
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file (YAML), read again at SIGHUP; without it the defaults apply")
	cmd.AddCommand(program.ConfigCommand("ebb-controller", func() error {
		_, err := io.WriteString(stdout, config.DefaultYAML)
		return err
	}))
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cmd
}

// serve runs the controller until ctx is done, or until the Lease is lost.
func serve(ctx context.Context, cfg config.Config, f flags, stderr io.Writer) error {
	log := program.Logger(cfg.Log.Level, cfg.Log.Format, stderr)
	program.LogStart(log, cfg.Mode == config.Enforce, f.file)
	debug.SetGCPercent(gcPercent)
	program.LimitMemory(log)
	api, err := clusterConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	client, err := metadata.New(api, metadata.Options{Timeout: time.Duration(cfg.RequestTimeout)})
	if err != nil {
		return err
	}
	defer client.Close()
	mark, err := election.NewLeaseState(api, election.Options{Namespace: cfg.LeaderElection.Namespace, Name: cfg.LeaderElection.Name})
	if err != nil {
		return err
	}
	store, err := journal.ConfigMaps(api, cfg.LeaderElection.Namespace, cfg.LeaderElection.JournalName())
	if err != nil {
		return err
	}
	c := cluster.New(cluster.Options{Config: cfg, Journal: store, API: cluster.FromClient(client), Log: log, Metrics: cluster.NewMetrics(), State: mark})
	group, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	group.Go(func() error { return c.Serve(ctx) })
	group.Go(func() error { reload(ctx, f.file, c, log); return nil })
	group.Go(func() error {
		defer end()
		if !cfg.LeaderElection.Enabled {
			return c.Run(ctx)
		}
		return elect(ctx, api, cfg.LeaderElection, log, client, c)
	})
	return group.Wait()
}

// elect runs the controller while this instance holds the Lease.
func elect(ctx context.Context, api *rest.Config, l config.LeaderElection, log *slog.Logger, client *metadata.Client, c *cluster.Controller) error {
	err := election.Run(ctx, client.Clocked(api), election.Options{
		Namespace: l.Namespace, Name: l.Name, LeaseDuration: time.Duration(l.LeaseDuration),
		RenewDeadline: time.Duration(l.RenewDeadline), RetryPeriod: time.Duration(l.RetryPeriod), Log: log, History: client,
	}, func(ctx context.Context, fence *election.Fence) error {
		c.Guard(fence.Holds)
		client.Trust(fence)
		return c.Run(ctx)
	})
	if errors.Is(err, election.ErrLost) {
		log.Error("exiting at once", "reason", "the lease was lost", "lease", l.Namespace+"/"+l.Name)
	}
	return err
}

// reload loads the configuration again at each SIGHUP. An invalid one changes nothing.
func reload(ctx context.Context, file string, c *cluster.Controller, log *slog.Logger) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
		}
		next := config.Default()
		var err error
		if file != "" {
			next, err = config.Load(file)
		}
		if err == nil {
			err = c.Configure(ctx, next)
		}
		if err != nil {
			log.Error("configuration rejected; the previous one stays in force", "reason", "SIGHUP", "error", err)
			continue
		}
		log.Info("configuration reloaded", "reason", "SIGHUP", "mode", string(next.Mode), "paused", next.Paused)
	}
}

func clusterConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		c, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("not in a pod with a service account: say which cluster with --kubeconfig FILE")
		}
		if err != nil {
			return nil, fmt.Errorf("in-cluster configuration: %w", err)
		}
		return c, nil
	}
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return c, nil
}

// gcPercent trades CPU time for memory. Most of the live heap is the graph and the collectors'
// state, which do not become garbage.
const gcPercent = 50
