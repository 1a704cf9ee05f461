package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/configcheck"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/agent/show"
)

// maxConfig bounds a configuration, in bytes. The programs have the same bound.
const maxConfig = 1 << 20

func configCommand(stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Check configuration files", Args: cobra.NoArgs,
		Long:    "config checks configuration files of ebb-agent and ebb-controller. It changes nothing.",
		Example: "  # before a rollout\n  ebb config check agent.yaml",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(configCheckCommand(stdout))
	return cmd
}

const configCheckLong = `check reads a configuration file as ebb-agent or ebb-controller would. It names each wrong
field. If no field is wrong, it shows how the file differs from the defaults. It needs no
cluster, and changes nothing.

FILE is a path, or - for standard input. The fields of the file show for which program it
is. If they do not, set --kind.

Exit codes:

  0  the file is right
  1  the file is wrong, or cannot be read
  2  wrong usage, or --kind is missing`

const configCheckExamples = `  # before a rollout
  ebb config check agent.yaml

  # the configuration in the cluster
  kubectl -n ebb-system get configmap ebb-agent -o jsonpath='{.data.agent\.yaml}' | ebb config check -

  # a file whose fields do not show for which program it is
  ebb config check --kind controller mode.yaml`

func configCheckCommand(stdout io.Writer) *cobra.Command {
	var kind, output string
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Check a configuration file before a program reads it", Args: cobra.ExactArgs(1),
		Long: configCheckLong, Example: configCheckExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output, textOrJSON); err != nil {
				return err
			}
			data, err := readConfig(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			found, differ, err := configcheck.Check(data, configcheck.Kind(kind))
			switch {
			case errors.Is(err, configcheck.ErrKind):
				return usagef("%s: %w; say it with --kind", args[0], err)
			case err != nil:
				return fmt.Errorf("configuration %s:\n%s", args[0], visible(err.Error()))
			case output == "json":
				return show.WriteJSON(stdout, map[string]any{"kind": found, "differs": differ})
			}
			return sayConfig(stdout, found, differ)
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "program that the file is for: agent or controller; without it the fields of the file decide")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "output format: text, json")
	program.Choices(cmd, "kind", string(configcheck.Agent), string(configcheck.Controller))
	program.Choices(cmd, "output", "text", "json")
	return cmd
}

// readConfig reads a file, or standard input if the name is "-".
func readConfig(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxConfig+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read configuration: %w", err)
	case len(data) > maxConfig:
		return nil, fmt.Errorf("read configuration: %s: more than %d bytes", name, maxConfig)
	}
	return data, nil
}

func sayConfig(w io.Writer, kind configcheck.Kind, differ []configcheck.Difference) error {
	var b strings.Builder
	fmt.Fprintf(&b, "ok: a configuration of ebb-%s", kind)
	if len(differ) == 0 {
		b.WriteString(", all of it the defaults\n")
	} else {
		b.WriteString("\n\n")
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "FIELD\tVALUE\tDEFAULT")
		for _, d := range differ {
			fmt.Fprintf(t, "%s\t%s\t%s\n", d.Field, configcheck.Text(d.Value), configcheck.Text(d.Default))
		}
		_ = t.Flush() // to a Builder
	}
	_, err := io.WriteString(w, b.String())
	return err
}
