package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// usualConfig is read if --config is not set and the file exists.
const usualConfig = "/etc/ebb.yaml"

const doctorLong = `doctor checks this node. It shows what is right, what is wrong, and how to fix it:

  - whether the kubelet, ebb or both collect images and dead containers, and which
    settings hand that over to ebb, or back
  - ebb's thresholds against those of the kubelet's eviction manager, in bytes and inodes
  - the container runtime, the filesystems, the kernel, and the agent itself

It changes nothing on the node. If no agent has pinned the kernel programs, it loads them
for a moment, without pins.

Run it as root on the node. In a pod it needs hostPID, CAP_SYS_PTRACE and the agent's
mounts. It reads the kubelet's command line and files as the kubelet does. With
--kubelet-url it also asks the kubelet.

With --node it runs in the pod of that node's agent, as kubectl exec would run it. It then
has the agent's configuration, rights and mounts. Flags that name files mean files of the
pod. That needs the rights to list and get pods, and to exec in ebb's namespace. Most
agents cannot see the kubelet's process; use --kubelet-url there.

A finding is a warning or an error.

` + exitTable

const doctorExamples = `  # check this node
  ebb doctor

  # check a node from your desk
  ebb doctor --node worker-3

  # a node without an agent, from your desk
  kubectl -n ebb-system debug node/worker-3 --profile=sysadmin --custom=deploy/doctor/as-root.yaml \
      --image=ghcr.io/ebb-agent/ebb:0.1.0 -- /usr/bin/ebb doctor --root /host
  kubectl -n ebb-system logs --selector app.kubernetes.io/managed-by=kubectl-debug --tail=-1

  # with the configuration that ebb-agent will have
  ebb doctor --config /etc/ebb.yaml

  # ask the kubelet for its running settings
  ebb doctor --kubelet-url https://127.0.0.1:10250 --kubelet-ca-file /var/lib/kubelet/pki/kubelet.crt \
      --kubelet-cert-file admin.crt --kubelet-key-file admin.key

  # before a change: check a kubelet configuration that is not in use yet
  ebb doctor --kubelet-config new-kubelet.yaml

  # for scripts: only the errors
  ebb doctor -o json | jq -r '.checks[] | select(.level == "error") | .id + ": " + .found'`

// examination is what doctor checks on the node where it runs.
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
		Short:   "Check a node, and show how to fix what is wrong",
		Long:    doctorLong,
		Example: doctorExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, textOrJSON); err != nil {
				return err
			}
			if node != "" {
				return doctorThere(cmd, to, node, stdout, stderr)
			}
			return o.run(cmd.Context(), file, output, stdout)
		},
	}
	flags := cmd.Flags()
	to.flags(flags)
	flags.StringVar(&node, "node", "", "check this node instead, in the pod of its agent")
	flags.StringVar(&file, "config", "", "ebb-agent's configuration file; without it "+usualConfig+" if that exists, else the defaults")
	flags.StringVarP(&output, "output", "o", "text", "output format: text, or json with stable field names (docs/doctor.md)")
	flags.StringVar(&o.kubeletConfig, "kubelet-config", "", "check this kubelet configuration file instead of the running kubelet's")
	flags.IntVar(&o.kubeletPID, "kubelet-pid", 0, "process ID of the kubelet, if several run")
	flags.StringVar(&o.kubelet.URL, "kubelet-url", "", "ask the kubelet at this URL for /configz, for example https://127.0.0.1:10250; without it pods.kubelet of the configuration, if pods.source is kubelet")
	flags.StringVar(&o.kubelet.TokenFile, "kubelet-token-file", "", "file with a bearer token for the kubelet")
	flags.StringVar(&o.kubelet.CertFile, "kubelet-cert-file", "", "file with a client certificate for the kubelet")
	flags.StringVar(&o.kubelet.KeyFile, "kubelet-key-file", "", "file with the key of the client certificate")
	flags.StringVar(&o.kubelet.CAFile, "kubelet-ca-file", "", "file with the authority that signed the kubelet's serving certificate")
	flags.StringVar(&o.kubelet.ServerName, "kubelet-server-name", "", "name in the kubelet's serving certificate, if it is not the URL's host; usually the node's name")
	flags.BoolVar(&o.kubelet.InsecureSkipVerify, "kubelet-insecure-skip-verify", false, "accept any serving certificate; the token then goes to any program that listens there")
	flags.StringVar(&o.root, "root", "", "in a container: directory where the node's root is mounted; all paths except --config are then the node's")
	flags.BoolVar(&o.skipProbes, "skip-probes", false, "do not test the kernel programs (the test loads them for a moment if no agent has pinned them)")
	program.Choices(cmd, "output", "text", "json")
	cmd.MarkFlagsMutuallyExclusive("kubelet-config", "kubelet-url")
	cmd.MarkFlagsMutuallyExclusive("node", "root")
	completesNodes(cmd)
	cmd.MarkFlagsRequiredTogether("kubelet-cert-file", "kubelet-key-file")
	return cmd
}

// doctorThere runs doctor in the pod of a node's agent, with the agent's configuration unless
// --config is set.
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
