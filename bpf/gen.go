package bpf

// Regenerating needs clang 14 and libbpf-dev; building and running need neither. The
// programs are compiled without the registers of one architecture, so one
// little-endian object serves amd64 and arm64. -mcpu=v3 is needed for atomic
// compare-and-exchange (Linux 5.12).
//
// The sources, and the objects made of them, are GPL-2.0-only OR Apache-2.0. The
// programs declare "GPL" to the kernel: its list of licences (linux/license.h) has no
// string for this pair, and some of the helpers that they call are only for programs
// that declare "GPL".

//go:generate go tool bpf2go -no-global-types -target bpfel -tags linux -type layer_key -type stamp -type lastuse_counters lastuse lastuse.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include
//go:generate go tool bpf2go -target bpfel -tags linux -type watermark -type watch -type crossing -type usage_counters -output-stem usage_ext4 usageExt4 usage_ext4.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include
//go:generate go tool bpf2go -no-global-types -target bpfel -tags linux -output-stem usage_xfs usageXfs usage_xfs.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include
//go:generate go tool bpf2go -no-global-types -target bpfel -tags linux -output-stem usage_btrfs usageBtrfs usage_btrfs.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include
//go:generate go tool bpf2go -no-global-types -target bpfel -tags linux -type writer -type account -type writers_counters -type inode_key writers writers.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include
//go:generate go tool bpf2go -no-global-types -target bpfel -tags linux -output-stem writers_ext4 writersExt4 writers_ext4.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include
//go:generate go tool bpf2go -no-global-types -target bpfel -tags linux -output-stem writers_xfs writersXfs writers_xfs.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include
//go:generate go tool bpf2go -no-global-types -target bpfel -tags linux -output-stem writers_btrfs writersBtrfs writers_btrfs.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include
//go:generate go tool bpf2go -no-global-types -target bpfel -tags linux -type heat_key -type heat_layer -type heat_bucket -type heat_counters heat heat.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include
