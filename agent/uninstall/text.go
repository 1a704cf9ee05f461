package uninstall

import (
	"fmt"
	"io"
	"strings"
)

// WriteVerdict writes a verdict for a person. say is for a hook, where a person cannot add flags:
// it is the command that sets them with arguments --from-literal. Elsewhere it is empty.
func WriteVerdict(w io.Writer, v Verdict, say string) error {
	var b strings.Builder
	for _, r := range v.Refusals {
		fmt.Fprintf(&b, "REFUSED  %s: %d\n", r.What, r.Total)
		for _, f := range r.Found {
			fmt.Fprintf(&b, "           %s\n", f)
		}
		if n := r.Total - len(r.Found); n > 0 {
			fmt.Fprintf(&b, "           and %d more\n", n)
		}
		fmt.Fprintf(&b, "         why: %s\n", r.Why)
		for _, f := range r.Fix {
			fmt.Fprintf(&b, "         fix: %s\n", f)
		}
		for _, l := range r.Leave {
			if say != "" {
				l = literal(l)
			}
			fmt.Fprintf(&b, "         or leave it as it is: %s\n", l)
		}
	}
	for _, n := range v.Notes {
		fmt.Fprintf(&b, "note     %s\n", n)
	}
	fmt.Fprintf(&b, "Looked at %d objects of %d types, and %d kubelets.\n", v.Objects, v.Types, v.Nodes)
	if v.MayGo {
		b.WriteString("ebb may be uninstalled.\n")
	} else {
		b.WriteString("ebb must not be uninstalled yet.\n")
		if say != "" {
			fmt.Fprintf(&b, "To leave something as it is, add its arguments to this command: %s\n", say)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// literal returns the argument that sets a flag for a hook.
func literal(flag string) string {
	name, value, ok := strings.Cut(flag, " ")
	if !ok {
		value = "true"
	}
	return fmt.Sprintf("--from-literal=%s=%s", Variable(strings.TrimPrefix(name, "--")), value)
}

// Variable returns the name of the environment variable for a flag.
func Variable(flag string) string {
	return "EBB_UNINSTALL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// WriteUnloaded writes the outcome of Unload, without the clean nodes.
func WriteUnloaded(w io.Writer, u Unloaded) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes are clean, %d are not; %d objects of ebb deleted in its namespace, %d left.\n",
		u.Clean, len(u.Nodes), len(u.Swept), len(u.Left))
	for _, n := range u.Nodes {
		fmt.Fprintf(&b, "NOT CLEAN  node %s: %s: %s\n", clean(n.Node), n.Result, n.Says)
	}
	for _, l := range u.Left {
		fmt.Fprintf(&b, "LEFT       %s\n", l)
	}
	for _, l := range u.Later {
		fmt.Fprintf(&b, "later:     %s\n", l)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
