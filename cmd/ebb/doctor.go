package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// usualConfig is read if no other is named and it is there.
const usualConfig = "/etc/ebb.yaml"

const doctorLong = `doctor checks this node and says what is right, what is wrong, and how to fix it:

  - the running kubelet: whether it collects images and dead containers, too, and
    which settings hand that over to ebb, or back
  - ebb's thresholds against those of the kubelet's eviction manager, by bytes and inodes
  - the container runtime, the filesystems, the kernel, the agent itself

It changes nothing on the node, whatever it finds. It reads the kubelet's command
line and files as the kubelet does; with --kubelet-url it asks the kubelet itself.
Run it as root on the node or, in a pod, with hostPID, CAP_SYS_PTRACE and the
agent's mounts.

With --node it runs in the pod of that node's agent, as kubectl exec would run it: with
the agent's configuration, rights and mounts. Files that flags name are those of the pod
then. Most agents cannot see the kubelet's process; --kubelet-url asks it.

Warnings and errors are findings. ` + exitTable

const doctorExamples = `  # what is there, and what to do about it
  ebb doctor

  # a node, from a desk
  ebb doctor --node worker-3

  # a node without an agent, from a desk
  kubectl debug node/worker-3 --profile=sysadmin --image=ghcr.io/ebb-agent/ebb:0.1.0 --attach \
      -- /usr/bin/ebb doctor --root /host

  # with the configuration that ebb-agent is going to have
  ebb doctor --config /etc/ebb.yaml

  # ask the kubelet for what it really runs with
  ebb doctor --kubelet-url https://127.0.0.1:10250 --kubelet-ca-file /var/lib/kubelet/pki/kubelet.crt \
      --kubelet-cert-file admin.crt --kubelet-key-file admin.key

  # before a change: judge a kubelet configuration that is not in use yet
  ebb doctor --kubelet-config new-kubelet.yaml

  # for scripts: only what is wrong
  ebb doctor -o json | jq -r '.checks[] | select(.level == "error") | .id + ": " + .found'`

// examination is what doctor is to look at on the node that it runs on.
type examination struct {
	kubeletConfig string
	kubelet       kube.KubeletOptions
	kubeletPID    int
	skipProbes    bool
	root          string
}

func doctorCommand(stdout, stderr io.Writer) *cobra.Command {
	var o examination
	var file, output, node string
	var to reach
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Say what is right on this node, what is not, and the way out",
		Long:    doctorLong,
		Example: doctorExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return usagef("--output: %q is none of text, json", output)
			}
			if node != "" {
				return doctorThere(cmd, to, node, stdout, stderr)
			}
			return o.run(cmd.Context(), file, output, stdout)
		},
	}
	flags := cmd.Flags()
	to.flags(flags)
	flags.StringVar(&node, "node", "", "run in the pod of this node's agent, in place of here")
	flags.StringVar(&file, "config", "", "ebb-agent's configuration; without it "+usualConfig+" if that is there, else the defaults")
	flags.StringVarP(&output, "output", "o", "text", "text, or json: field names that stay (docs/doctor.md)")
	flags.StringVar(&o.kubeletConfig, "kubelet-config", "", "judge this kubelet configuration file in place of the running kubelet's")
	flags.IntVar(&o.kubeletPID, "kubelet-pid", 0, "which kubelet, if several run")
	flags.StringVar(&o.kubelet.URL, "kubelet-url", "", "ask the kubelet there for /configz, for example https://127.0.0.1:10250; else pods.kubelet of the configuration, if pods.source is kubelet")
	flags.StringVar(&o.kubelet.TokenFile, "kubelet-token-file", "", "a bearer token to ask with")
	flags.StringVar(&o.kubelet.CertFile, "kubelet-cert-file", "", "a client certificate to ask with")
	flags.StringVar(&o.kubelet.KeyFile, "kubelet-key-file", "", "its key")
	flags.StringVar(&o.kubelet.CAFile, "kubelet-ca-file", "", "the authority of the kubelet's serving certificate")
	flags.StringVar(&o.kubelet.ServerName, "kubelet-server-name", "", "what that certificate is for, if that is not the URL's host: usually the node's name")
	flags.BoolVar(&o.kubelet.InsecureSkipVerify, "kubelet-insecure-skip-verify", false, "take any serving certificate; the token then goes to whoever listens there")
	flags.StringVar(&o.root, "root", "", "where the node's root directory is mounted, if this is a container: all paths but --config's are the node's then")
	flags.BoolVar(&o.skipProbes, "skip-probes", false, "do not try the kernel programs (they are loaded for a moment if no agent has pinned them)")
	program.Choices(cmd, "output", "text", "json")
	cmd.MarkFlagsMutuallyExclusive("kubelet-config", "kubelet-url")
	cmd.MarkFlagsMutuallyExclusive("node", "root")
	cmd.MarkFlagsRequiredTogether("kubelet-cert-file", "kubelet-key-file")
	return cmd
}

// doctorThere runs the doctor in the pod of a node's agent, with the agent's configuration
// unless another is named.
func doctorThere(cmd *cobra.Command, to reach, node string, stdout, stderr io.Writer) error {
	d, err := to.desk(node)
	if err != nil {
		return err
	}
	defer d.Close()
	agents, err := d.Agents(cmd.Context())
	if err != nil {
		return err
	}
	pod := agents[0].Pod
	args := append([]string{"doctor"}, given(cmd.Flags(), "node")...)
	if !cmd.Flags().Changed("config") {
		file, err := d.ConfigFile(cmd.Context(), pod, desk.AgentContainer)
		if err != nil {
			return err
		}
		if file != "" {
			args = append(args, "--config="+file)
		}
	}
	return runThere(cmd.Context(), d, pod, desk.AgentContainer, args, stdout, stderr)
}
