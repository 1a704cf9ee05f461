package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/stdio"
)

const dialLong = `dial-stdio joins standard input and output to the admin socket of the agent beside it.
It is how ebb, at a desk, reaches this node: through the API server, by exec into the
agent's pod. It ends when the agent ends the connection, or a minute after its input.
Keep the input open until the answer is there: its end cancels the request.`

const dialExamples = `  # ask the agent of a pod, in HTTP; end the input with Ctrl-D
  { printf 'GET / HTTP/1.0\r\n\r\n'; cat; } | kubectl -n ebb-system exec -i ebb-agent-x7k2p -- /usr/bin/ebb-agent dial-stdio`

func dialCommand(stdout io.Writer) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: "dial-stdio", Short: "Join standard input and output to the agent's admin socket", Long: dialLong, Example: dialExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return stdio.Dial(cmd.Context(), socket, os.Stdin, stdout)
		},
	}
	cmd.Flags().StringVar(&socket, "socket", stdio.DefaultSocket, "path of the admin socket")
	return cmd
}
