// Command policy writes deploy/admission. To add custom resources whose plural is
// irregular or that are cluster-scoped:
//
//	go run ./tools/admission/cmd/policy -dir DIR -kind example.io/Gadget=gadgetry:Cluster
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ebb-agent/ebb/tools/admission"
)

func main() {
	dir := flag.String("dir", ".", "directory to write policy.yaml and deny.yaml to")
	var kinds []admission.Kind
	flag.Func("kind", "another kind, as GROUP/KIND=RESOURCE:Namespaced or ...:Cluster; can be repeated", func(s string) error {
		k, err := admission.ParseKind(s)
		kinds = append(kinds, k)
		return err
	})
	flag.Parse()
	if err := write(*dir, kinds); err != nil {
		fmt.Fprintln(os.Stderr, "policy:", err)
		os.Exit(1)
	}
}

func write(dir string, kinds []admission.Kind) error {
	policy, err := admission.Policy(kinds...)
	if err != nil {
		return err
	}
	deny, err := admission.Deny()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"policy.yaml": policy, "deny.yaml": deny} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("write policy: %w", err)
		}
	}
	return nil
}
