package program

import "log/slog"

// LogStart logs what a program that starts does with its decisions, and what it takes
// to have it act if it only observes. file is its configuration, "" if it has none.
func LogStart(log *slog.Logger, enforces bool, file string) {
	where := "in " + file
	if file == "" {
		where = "in a file for --config"
	}
	if enforces {
		log.Info("started: what is decided is done", "mode", "enforce", "version", Version(), "reason", "mode: enforce "+where)
		return
	}
	log.Info("started: nothing is removed, only said", "mode", "observe", "version", Version(),
		"reason", "mode is observe unless the configuration says otherwise", "to_enforce", "mode: enforce "+where)
}
