package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/doctor"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/program"
)

// usualConfig is read if no other is named and it is there.
const usualConfig = "/etc/ebb.yaml"

const doctorLong = `doctor looks at this node and says what is right, what is not, and the way out:

  - the running kubelet: whether it collects images and dead containers, too, and
    which settings hand that over to ebb, or back
  - ebb's lines against those of the kubelet's eviction manager, by bytes and inodes
  - the container runtime, the filesystems, the kernel, the agent itself

It changes nothing on the node, whatever it finds. It reads the kubelet's command
line and files as the kubelet does; with --kubelet-url it asks the kubelet itself.
Run it as root on the node or, in a pod, with hostPID, CAP_SYS_PTRACE and the
agent's mounts.

Exit code: 0 all is well, 1 warnings, 2 errors, 3 it could not run.`

const doctorExamples = `  # what is there, and what to do about it
  ebb doctor

  # with the configuration that ebb-agent is going to have
  ebb doctor --config /etc/ebb.yaml

  # ask the kubelet for what it really runs with
  ebb doctor --kubelet-url https://127.0.0.1:10250 --kubelet-ca-file /var/lib/kubelet/pki/kubelet.crt \
      --kubelet-cert-file admin.crt --kubelet-key-file admin.key

  # before a change: judge a kubelet configuration that is not in use yet
  ebb doctor --kubelet-config new-kubelet.yaml

  # for scripts: only what is wrong
  ebb doctor --output json | jq -r '.checks[] | select(.level == "error") | .id + ": " + .found'`

func doctorCommand(stdout io.Writer) *cobra.Command {
	var o doctor.Options
	var file, output string
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Say what is right on this node, what is not, and the way out",
		Long:    doctorLong,
		Example: doctorExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output: %q is neither text nor json", output)
			}
			if err := loadConfig(&o, file); err != nil {
				return err
			}
			report := doctor.Judge(doctor.Look(cmd.Context(), o))
			if err := cmd.Context().Err(); err != nil {
				return err // interrupted: what was read is not the node's state
			}
			return say(stdout, report, output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&file, "config", "", "ebb-agent's configuration; without it "+usualConfig+" if that is there, else the defaults")
	flags.StringVar(&output, "output", "text", "text, or json: field names that stay (docs/doctor.md)")
	flags.StringVar(&o.KubeletConfig, "kubelet-config", "", "judge this kubelet configuration file in place of the running kubelet's")
	flags.IntVar(&o.KubeletPID, "kubelet-pid", 0, "which kubelet, if several run")
	flags.StringVar(&o.Kubelet.URL, "kubelet-url", "", "ask the kubelet there for /configz, for example https://127.0.0.1:10250; else pods.kubelet of the configuration, if pods.source is kubelet")
	flags.StringVar(&o.Kubelet.TokenFile, "kubelet-token-file", "", "a bearer token to ask with")
	flags.StringVar(&o.Kubelet.CertFile, "kubelet-cert-file", "", "a client certificate to ask with")
	flags.StringVar(&o.Kubelet.KeyFile, "kubelet-key-file", "", "its key")
	flags.StringVar(&o.Kubelet.CAFile, "kubelet-ca-file", "", "the authority of the kubelet's serving certificate")
	flags.StringVar(&o.Kubelet.ServerName, "kubelet-server-name", "", "what that certificate is for, if that is not the URL's host: usually the node's name")
	flags.BoolVar(&o.Kubelet.InsecureSkipVerify, "kubelet-insecure-skip-verify", false, "take any serving certificate; the token then goes to whoever listens there")
	flags.BoolVar(&o.SkipProbes, "skip-probes", false, "do not try the kernel programs (they are loaded for a moment if no agent has pinned them)")
	program.Choices(cmd, "output", "text", "json")
	cmd.MarkFlagsMutuallyExclusive("kubelet-config", "kubelet-url")
	cmd.MarkFlagsRequiredTogether("kubelet-cert-file", "kubelet-key-file")
	return cmd
}

// loadConfig reads the agent's configuration.
func loadConfig(o *doctor.Options, file string) error {
	if file == "" {
		_, err := os.Stat(usualConfig)
		if errors.Is(err, fs.ErrNotExist) {
			o.Config = config.Default()
			return nil
		}
		file = usualConfig
	}
	var err error
	o.Config, err = config.Load(file)
	o.ConfigFile = file
	return err
}

// say writes the report, and ends the command as it turned out.
func say(w io.Writer, report doctor.Report, output string) error {
	var err error
	if output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(report)
	} else {
		err = doctor.WriteText(w, report)
	}
	if code := report.ExitCode(); err == nil && code != doctor.ExitFine {
		return exitCode(code)
	}
	return err
}
