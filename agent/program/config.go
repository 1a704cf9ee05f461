package program

import (
	"fmt"

	"github.com/spf13/cobra"
)

// ConfigCommand is the command "config" of a program: its configuration, as print writes it.
func ConfigCommand(name string, print func() error) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show the configuration that the program has by default", Args: cobra.NoArgs,
		Long:    "config is about the configuration of " + name + ": what there is, and what it means.",
		Example: "  " + name + " config default",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use: "default", Short: "Print the default configuration, each field explained", Args: cobra.NoArgs,
		Long:    "default prints the default configuration, with every field explained. It is a file that --config takes.",
		Example: fmt.Sprintf("  %[1]s config default >%[1]s.yaml", name),
		RunE:    func(*cobra.Command, []string) error { return print() },
	})
	return cmd
}
