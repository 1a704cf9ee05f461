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

// sayVariable has the command that gives a hook its flags.
const sayVariable = "EBB_UNINSTALL_SAY"

const uninstallLong = `uninstall helps to remove ebb from a cluster, in two steps. The Helm chart runs both as
hooks. You can also run them as plain Jobs, or by hand.

  check   before: refuses while ebb would leave objects or images without a collector
  unload  after: removes what ebb left on the nodes, by a DaemonSet

Each flag can also come from the environment: EBB_UNINSTALL_LEAVE_NODE=a,b is the same as
--leave-node a,b.

check refuses with exit code 3. unload does so, too, while ebb is still installed. unload
ends with 4 if nodes did not answer, and with 1 if it failed on a node or was interrupted.
Run it again to continue.

` + exitTable

const uninstallExamples = `  # before: whether ebb may be uninstalled
  ebb uninstall check

  # after: clean the nodes
  ebb uninstall unload --namespace ebb-system --image ghcr.io/ebb-agent/ebb:0.1.0`

func uninstallCommand(stdout, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "uninstall",
		Short:   "Check before ebb is uninstalled, clean the nodes after it",
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

// fromEnvironment sets flags that were not given from their environment variables.
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

const checkLong = `check shows whether ebb may be uninstalled. It changes nothing. It refuses in these cases:

  - objects that are being deleted wait for a garbage collector
  - kubelets leave their images to ebb
  - check could not read some of this
  - the pods of a kube-controller-manager show that it does not collect garbage

It shows how to fix each case. To accept a case as it is, use the flag that the output
names. ebb cannot detect another garbage collector reliably. If one runs, set
--other-collector.

check asks the kubelets with a token of a service account that may get nodes/configz, and
nothing else. Kubelets before Kubernetes 1.33 do not know that right, and some cannot be
reached from here. For these, set --kubelet-proxy to ask through the API server.

A finding is a refusal.

` + exitTable

const checkExamples = `  # whether ebb may be uninstalled
  ebb uninstall check

  # the kube-controller-manager collects again; node old-7 will never come back
  ebb uninstall check --other-collector --leave-node old-7

  # if only the agent is uninstalled
  ebb uninstall check --controller=false

  # kubelets before 1.33, or that cannot be reached from here; needs get on nodes/proxy
  ebb uninstall check --kubelet-proxy`

func checkCommand(stdout, stderr io.Writer) *cobra.Command {
	var to access
	o := uninstall.CheckOptions{Progress: stderr}
	cmd := &cobra.Command{
		Use: "check", Short: "Check whether ebb may be uninstalled", Long: checkLong, Example: checkExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Config, err = to.config(); err != nil {
				return err
			}
			v, err := uninstall.Check(cmd.Context(), o)
			if err != nil {
				return err
			}
			return to.answer(stdout, v, func() error { return uninstall.WriteVerdict(stdout, v, os.Getenv(sayVariable)) }, v.MayGo, exitFindings)
		},
	}
	f := cmd.Flags()
	to.flags(f)
	f.BoolVar(&o.Agent, "agent", true, "ebb-agent will be uninstalled: ask the kubelets whether they collect images")
	f.BoolVar(&o.Controller, "controller", true, "ebb-controller will be uninstalled: look for objects that wait for a garbage collector")
	f.BoolVar(&o.OtherCollector, "other-collector", false, "another garbage collector runs, for example the kube-controller-manager's; it will finish deletions that have begun")
	f.BoolVar(&o.LeaveFinalizers, "leave-finalizers", false, "accept that objects wait for a garbage collector forever")
	f.BoolVar(&o.LeaveImageGC, "leave-image-gc", false, "accept that kubelets are left without image garbage collection")
	f.StringSliceVar(&o.LeaveNodes, "leave-node", nil, "accept these nodes as they are: handed over to ebb, or unknown")
	f.StringSliceVar(&o.LeaveTypes, "leave-type", nil, "do not read these types (RESOURCE.GROUP) or versions (GROUP/VERSION)")
	f.StringSliceVar(&o.Types, "type", nil, "read only these types (RESOURCE.GROUP), for example those that ebb-controller may read")
	f.StringVar(&o.KubeletAccount, "kubelet-account", uninstall.KubeletAccount, "ask the kubelets with a token of this service account (NAMESPACE/NAME); it needs to get nodes/configz, and nothing else")
	f.BoolVar(&o.KubeletProxy, "kubelet-proxy", false, "ask the kubelets through the API server instead; this needs to get nodes/proxy, a right that can also run commands on nodes")
	f.DurationVar(&o.Wait, "wait", 30*time.Second, "how long to wait until ebb-controller has finished deletions that have begun")
	return cmd
}

const unloadLong = `unload cleans the nodes after ebb was uninstalled. It removes what ebb-agent left there:
kernel programs, leases in containerd, and the state. A DaemonSet (ebb-unload) runs
"ebb-agent unload" on each node. unload deletes it at the end.

It needs a namespace that admits privileged pods, and the right to list nodes. In the
namespace it also needs the rights to make and delete a DaemonSet, and to delete pods and
other objects of ebb.

You can run it again at any time: to clean a node again does no harm. A run within 15
minutes after an interrupted one continues it, with the same template and the same nodes.
At the end unload names the nodes that are not clean, with the command for later. Such
nodes do not delay others.

Exit codes:

  0  all nodes are clean
  1  it failed on a node, or was interrupted
  2  wrong usage
  3  ebb is still installed
  4  a node did not answer in time`

const unloadExamples = `  # all nodes
  ebb uninstall unload --namespace ebb-system --image ghcr.io/ebb-agent/ebb:0.1.0

  # a node that was down
  ebb uninstall unload --namespace ebb-system --image ghcr.io/ebb-agent/ebb:0.1.0 --node worker-7`

func unloadCommand(stdout, stderr io.Writer) *cobra.Command {
	var to access
	var file string
	o := uninstall.UnloadOptions{Progress: stderr}
	cmd := &cobra.Command{
		Use: "unload", Short: "Clean the nodes after ebb was uninstalled", Long: unloadLong, Example: unloadExamples, Args: cobra.NoArgs,
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
			if errors.Is(err, uninstall.ErrInstalled) { // a refusal, as check has
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
			return to.answer(stdout, done, func() error { return uninstall.WriteUnloaded(stdout, done) }, done.AllClean(), bad)
		},
	}
	f := cmd.Flags()
	to.flags(f)
	f.StringVarP(&o.Namespace, "namespace", "n", "", "namespace for the pods; it must admit privileged pods")
	f.StringVar(&file, "template", "", "file with the pod to run on each node (a v1 Pod); without it unload makes one from --image")
	f.StringVar(&o.Image, "image", "", "image with ebb-agent; replaces the image of --template")
	f.StringSliceVar(&o.Nodes, "node", nil, "clean only these nodes")
	f.StringVar(&o.NodeSelector, "node-selector", "kubernetes.io/os=linux", "labels of the nodes to clean")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "how long to wait for all nodes, plus one second for each 20 nodes, because 20 pods are made in a second")
	f.StringVar(&o.Sweep, "sweep", "", "labels of ebb's own objects in the namespace; those without their owner are deleted, as by a garbage collector")
	f.StringSliceVar(&o.Leases, "lease", nil, "Leases in the namespace to delete: the one of ebb-controller's leader election")
	return cmd
}
