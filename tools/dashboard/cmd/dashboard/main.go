// Command dashboard writes the dashboard for Grafana.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/ebb-agent/ebb/tools/dashboard"
)

func main() {
	file := flag.String("file", "deploy/grafana/ebb.json", "the file to write")
	flag.Parse()
	text, err := dashboard.JSON()
	if err == nil {
		err = os.WriteFile(*file, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}
