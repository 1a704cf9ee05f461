package program

import (
	"fmt"

	"github.com/spf13/cobra"
)

// ConfigCommand makes the command "config" of a program. Its command "default" calls print, which
// writes the default configuration.
func ConfigCommand(name string, print func() error) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show the configuration and its defaults", Args: cobra.NoArgs,
		Long:    "config explains the configuration of " + name + ": its fields, their defaults and their meaning. It changes nothing.",
		Example: "  # the defaults, with an explanation of each field\n  " + name + " config default",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "default", Short: "Print the default configuration, with an explanation of each field", Args: cobra.NoArgs,
		Long:    "default prints the default configuration, with an explanation of each field. The output is a\nconfiguration file for --config. The command changes nothing.",
		Example: fmt.Sprintf("  # a file to edit\n  %[1]s config default >%[1]s.yaml", name),
		RunE:    func(*cobra.Command, []string) error { return print() },
	})
	return cmd
}
