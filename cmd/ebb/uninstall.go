package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ebb-agent/ebb/agent/uninstall"
)

// sayVariable has the command by which a person gives a hook its flags.
const sayVariable = "EBB_UNINSTALL_SAY"

const uninstallLong = `uninstall is for the end of ebb in a cluster, in two steps. The Helm chart runs
both as hooks; they can be run as plain Jobs, or by hand, just as well.

  check   before: refuses while ebb would leave something that nobody looks after
  unload  after: takes what is left on the nodes away, by a DaemonSet

Each flag can also come from the environment: --leave-node a,b is
EBB_UNINSTALL_LEAVE_NODE=a,b there.

check refuses with 3, as unload does while ebb is installed. unload ends with 4 if nodes did not
answer, and with 1 if it failed on a node or was interrupted; run it again to go on.
` + exitTable

const uninstallExamples = `  # before: may it go?
  ebb uninstall check

  # after: clear the nodes
  ebb uninstall unload --namespace ebb-system --image ghcr.io/ebb-agent/ebb:v1`

func uninstallCommand(stdout, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "uninstall",
		Short:   "Say whether ebb may go, and clear the nodes when it has",
		Long:    uninstallLong,
		Example: uninstallExamples,
		// A step that is misspelt must not look like one that went well.
		RunE: func(_ *cobra.Command, args []string) error {
			return usagef("uninstall %s: the steps are check and unload", strings.Join(args, " "))
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return fromEnvironment(cmd.Flags(), os.LookupEnv)
		},
	}
	cmd.AddCommand(checkCommand(stdout, stderr), unloadCommand(stdout, stderr))
	return cmd
}

// fromEnvironment sets the flags that were not given.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" {
			return
		}
		name := uninstall.Variable(f.Name)
		if value, ok := lookup(name); ok {
			if err := flags.Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
	})
	return errors.Join(errs...)
}

const checkLong = `check says whether ebb may be uninstalled. It changes nothing.

It refuses while objects are being deleted that wait for a garbage collector,
unless another one than ebb-controller is known to be at work; while kubelets
leave images to ebb; and while it cannot see either. It says what it found, and
the ways out. What is left as it is has to be named.

The kubelets are asked in the name of a service account that may get nodes/configz
and nothing else. Those before Kubernetes 1.33, and those that cannot be reached from
here, are asked by way of the API server: --kubelet-proxy.`

const checkExamples = `  # may it go?
  ebb uninstall check

  # the kube-controller-manager collects again; node old-7 is gone for good
  ebb uninstall check --other-collector --leave-node old-7

  # only the agent is to go
  ebb uninstall check --controller=false

  # kubelets before 1.33, or that cannot be reached from here; needs get on nodes/proxy
  ebb uninstall check --kubelet-proxy`

func checkCommand(stdout, stderr io.Writer) *cobra.Command {
	var to access
	o := uninstall.CheckOptions{Progress: stderr}
	cmd := &cobra.Command{
		Use: "check", Short: "Say whether ebb may be uninstalled", Long: checkLong, Example: checkExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Config, err = to.config(); err != nil {
				return err
			}
			v, err := uninstall.Check(cmd.Context(), o)
			if err != nil {
				return err
			}
			return to.tell(stdout, v, func() error { return uninstall.WriteVerdict(stdout, v, os.Getenv(sayVariable)) }, v.MayGo, exitFindings)
		},
	}
	f := cmd.Flags()
	to.flags(f)
	f.BoolVar(&o.Agent, "agent", true, "ebb-agent is to go: ask the kubelets who collects images")
	f.BoolVar(&o.Controller, "controller", true, "ebb-controller is to go: look for objects that wait for a garbage collector")
	f.BoolVar(&o.OtherCollector, "other-collector", false, "another garbage collector is at work, for example the kube-controller-manager's: it will end what has begun")
	f.BoolVar(&o.LeaveFinalizers, "leave-finalizers", false, "objects that wait for a garbage collector may wait forever")
	f.BoolVar(&o.LeaveImageGC, "leave-image-gc", false, "kubelets may be left without image garbage collection")
	f.StringSliceVar(&o.LeaveNodes, "leave-node", nil, "leave these nodes as they are, handed over or unknown")
	f.StringSliceVar(&o.LeaveTypes, "leave-type", nil, "types (RESOURCE.GROUP) or versions (GROUP/VERSION) that need not be read")
	f.StringSliceVar(&o.Types, "type", nil, "read these types (RESOURCE.GROUP) alone: those that ebb-controller may read")
	f.StringVar(&o.KubeletAccount, "kubelet-account", uninstall.KubeletAccount, "ask the kubelets in the name of this service account (NAMESPACE/NAME), which needs to get nodes/configz and nothing else")
	f.BoolVar(&o.KubeletProxy, "kubelet-proxy", false, "ask the kubelets by way of the API server instead, which needs to get nodes/proxy: a right with which commands can be run on nodes")
	f.DurationVar(&o.Wait, "wait", 30*time.Second, "how long to wait for ebb-controller to be done with what is being deleted")
	return cmd
}

const unloadLong = `unload takes what ebb-agent has left on the nodes away, after it was deleted:
kernel programs, leases in containerd, state. A DaemonSet, ebb-unload, runs
ebb-agent unload on each node; it is deleted at the end.

It can be run again at any time. A run that was interrupted goes on, and within 15
minutes none clears a node again that is clean: ConfigMap ebb-unload remembers these,
and goes when all are clean. Nodes that are not clean in time are named, with the
command for later. They hold up no others.`

const unloadExamples = `  # all nodes
  ebb uninstall unload --namespace ebb-system --image ghcr.io/ebb-agent/ebb:v1

  # one that was down
  ebb uninstall unload --namespace ebb-system --image ghcr.io/ebb-agent/ebb:v1 --node worker-7`

func unloadCommand(stdout, stderr io.Writer) *cobra.Command {
	var to access
	var file string
	o := uninstall.UnloadOptions{Progress: stderr}
	cmd := &cobra.Command{
		Use: "unload", Short: "Clear the nodes after ebb was uninstalled", Long: unloadLong, Example: unloadExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if file != "" {
				if o.Template, err = os.ReadFile(file); err != nil {
					return usagef("--template: %w", err)
				}
			}
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			if o.Config, err = to.config(); err != nil {
				return err
			}
			done, err := uninstall.Unload(cmd.Context(), o)
			if errors.Is(err, uninstall.ErrInstalled) { // a refusal, as that of check
				fmt.Fprintln(stderr, "ebb:", err)
				return exitFindings
			}
			if err != nil {
				return err
			}
			bad := exitIncomplete
			if done.Failed() {
				bad = exitError
			}
			return to.tell(stdout, done, func() error { return uninstall.WriteUnloaded(stdout, done) }, done.AllClean(), bad)
		},
	}
	f := cmd.Flags()
	to.flags(f)
	f.StringVarP(&o.Namespace, "namespace", "n", "", "namespace for the pods; it must allow privileged ones")
	f.StringVar(&file, "template", "", "file with the pod to run on each node (a v1 Pod); without it one is made of --image")
	f.StringVar(&o.Image, "image", "", "image with ebb-agent in it; overrides that of --template")
	f.StringSliceVar(&o.Nodes, "node", nil, "clear these nodes alone")
	f.StringVar(&o.NodeSelector, "node-selector", "kubernetes.io/os=linux", "labels of the nodes to clear")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "how long to wait for all nodes; a second more for each 20, for so many pods are made in one")
	f.StringVar(&o.Sweep, "sweep", "", "labels of what was ebb's in the namespace: what has lost its owner is deleted, as a garbage collector would")
	f.StringSliceVar(&o.Leases, "lease", nil, "Leases in the namespace to delete: that of ebb-controller's leader election")
	return cmd
}
