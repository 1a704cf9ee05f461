package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ebb-agent/ebb/agent/uninstall"
)

// exitRefused: looked, and it is not to be; or not all is clean.
const exitRefused = 1

// sayVariable has the command by which a person gives a hook its flags.
const sayVariable = "EBB_UNINSTALL_SAY"

const uninstallLong = `uninstall is for the end of ebb in a cluster, in two steps. The Helm chart runs
both as hooks; they can be run as plain Jobs, or by hand, just as well.

  check   before: refuses while ebb would leave something that nobody looks after
  unload  after: takes what is left on the nodes away, by one pod on each

Each flag can also come from the environment: --leave-node a,b is
EBB_UNINSTALL_LEAVE_NODE=a,b there.

Exit code: 0 yes, or all is clean; 1 refused, or not all is; 3 it could not run.`

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
			return fmt.Errorf("uninstall %s: the steps are check and unload", strings.Join(args, " "))
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return fromEnvironment(cmd.Flags(), os.LookupEnv)
		},
	}
	cmd.AddCommand(checkCommand(stdout), unloadCommand(stdout, stderr))
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

// access is how the API server is reached.
type access struct{ kubeconfig, context, output string }

func (a *access) flags(f *pflag.FlagSet) {
	f.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig to use; without it $KUBECONFIG, ~/.kube/config, or the pod's service account")
	f.StringVar(&a.context, "context", "", "context of the kubeconfig; without it the current one")
	f.StringVarP(&a.output, "output", "o", "text", "text, or json: field names that stay")
}

func (a *access) config() (*rest.Config, error) {
	if a.output != "text" && a.output != "json" {
		return nil, fmt.Errorf("--output: %q is neither text nor json", a.output)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: a.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return config, nil
}

const checkLong = `check says whether ebb may be uninstalled. It changes nothing.

It refuses while objects are being deleted that wait for a garbage collector,
unless another one than ebb-controller is known to be at work; while kubelets
leave images to ebb; and while it cannot see either. It says what it found, and
the ways out. What is left as it is has to be named.`

const checkExamples = `  # may it go?
  ebb uninstall check

  # the kube-controller-manager collects again; node old-7 is gone for good
  ebb uninstall check --other-collector --leave-node old-7

  # only the agent is to go
  ebb uninstall check --controller=false`

func checkCommand(stdout io.Writer) *cobra.Command {
	var to access
	o := uninstall.CheckOptions{}
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
			if to.output == "json" {
				err = writeJSON(stdout, v)
			} else {
				err = uninstall.WriteVerdict(stdout, v, os.Getenv(sayVariable))
			}
			if err == nil && !v.MayGo {
				return exitCode(exitRefused)
			}
			return err
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
	f.DurationVar(&o.Wait, "wait", 30*time.Second, "how long to wait for ebb-controller to be done with what is being deleted")
	return cmd
}

const unloadLong = `unload takes what ebb-agent has left on the nodes away, after it was deleted:
kernel programs, leases in containerd, state. It makes a pod on each node that
runs ebb-agent --unload there, waits for it, and deletes it. It can be run again
at any time. Nodes that do not answer in time are named, with the command for
later.`

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
			if o.Namespace == "" {
				return errors.New("--namespace: say where the pods are to be made")
			}
			if file != "" {
				if o.Template, err = os.ReadFile(file); err != nil {
					return fmt.Errorf("--template: %w", err)
				}
			}
			if o.Config, err = to.config(); err != nil {
				return err
			}
			done, err := uninstall.Unload(cmd.Context(), o)
			if errors.Is(err, uninstall.ErrInstalled) {
				fmt.Fprintln(stderr, "ebb:", err)
				return exitCode(exitRefused)
			}
			if err != nil {
				return err
			}
			if to.output == "json" {
				err = writeJSON(stdout, done)
			} else {
				err = uninstall.WriteUnloaded(stdout, done)
			}
			if err == nil && !done.AllClean() {
				return exitCode(exitRefused)
			}
			return err
		},
	}
	f := cmd.Flags()
	to.flags(f)
	f.StringVarP(&o.Namespace, "namespace", "n", "", "namespace for the pods; it must allow privileged ones")
	f.StringVar(&file, "template", "", "file with the pod to make on each node (a v1 Pod); without it one is made of --image")
	f.StringVar(&o.Image, "image", "", "image with ebb-agent in it; overrides that of --template")
	f.StringSliceVar(&o.Nodes, "node", nil, "clear these nodes alone")
	f.StringVar(&o.NodeSelector, "node-selector", "kubernetes.io/os=linux", "labels of the nodes to clear")
	f.IntVar(&o.Parallel, "parallel", 32, "so many nodes at a time")
	f.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "how long to wait for one node")
	f.StringVar(&o.Sweep, "sweep", "", "labels of what was ebb's in the namespace: what has lost its owner is deleted, as a garbage collector would")
	f.StringSliceVar(&o.Leases, "lease", nil, "Leases in the namespace to delete: that of ebb-controller's leader election")
	return cmd
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
