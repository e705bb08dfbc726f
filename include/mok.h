/* mok.h: the C ABI of MoK: mixture-of-experts training steps over the ranks of one group.
 *
 * Pure C11. C++ users take mok/layer.hpp instead, where layouts and meanings are told in full.
 *
 * Status: every call returns a mok_status by value: MOK_OK, or a code and one line that names
 * argument, value and rule, or rank, site and call. No exception leaves a function. Bad arguments
 * are refused before any side effect; outputs stay as they were.
 *
 * Growth: a struct with struct_size carries its own sizeof there. It is zeroed first, but for
 * mok_options, which start from MOK_OPTIONS_INIT (0 is no default of theirs). Later versions only add fields at the end; one that the caller's struct lacks
 * has its default. Structs without struct_size never change.
 *
 * Ownership: what a _create makes is given once to the matching _destroy (NULL is allowed), in any
 * order. Tensors and argument structs stay the caller's; no pointer to them is kept after a call.
 *
 * Threads: a workspace or context is used by one thread at a time; different ones are independent.
 * A mok_world may be used by several threads at once. forward, backward and recompute wait for the
 * other ranks, so the ranks of a process call from threads of their own.
 *
 * Streams: there are none; nothing is queued, a call returns when its results are in memory.
 *
 * bf16 values are uint16_t: the upper half of an IEEE binary32. MoK itself is C++: link with the
 * C++ compiler, or add the C++ run-time library.
 */
#ifndef MOK_H
#define MOK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Codes; docs/errors.md lists for each one: cause, state afterwards, who acts. */
enum {
  MOK_OK = 0,
  MOK_BAD_ARGUMENT = 1,  /* the caller's mistake, refused before any side effect */
  MOK_BAD_FILE = 2,      /* a file that is missing, truncated, or not what it says */
  MOK_ENVIRONMENT = 3,   /* the machine cannot do it: memory, threads, engine */
  MOK_TIMEOUT = 4,       /* a deadline passed while waiting for a rank */
  MOK_PEER_LOST = 5,     /* a rank of the group is gone */
  MOK_CALL_MISMATCH = 6, /* the ranks of the group paired different calls */
  MOK_ABORTED = 7,       /* another rank reported first */
  MOK_POISONED = 8,      /* an earlier failure left this workspace unusable: make a new one */
  MOK_CHECK_FAILED = 9,  /* a verification found a wrong number */
  MOK_INTERNAL = 10      /* a broken invariant of MoK itself */
};

/* Values of mok_options. */
enum { MOK_DISPATCH_PULL = 0, MOK_DISPATCH_PUSH = 1 };
enum { MOK_COMBINE_SCATTER = 0, MOK_COMBINE_PUSH = 1, MOK_COMBINE_PULL = 2 };
enum { MOK_SAVE_ALL = 0, MOK_SAVE_NONE = 1 };
/* Values of mok_weight_grads: overwritten bf16, overwritten float, added once into float. */
enum { MOK_GRAD_BF16 = 0, MOK_GRAD_FP32 = 1, MOK_GRAD_MAIN_GRAD = 2 };

typedef struct mok_status {
  int32_t code;      /* MOK_OK, ... */
  int32_t rank;      /* the rank to look at, -1 where none is to blame */
  uint64_t epoch;    /* number of the call that failed, 0 where none ran */
  char message[512]; /* one line that begins with the code's name; cut where it is longer */
} mok_status;

typedef struct mok_world mok_world;         /* one rank's place in its group */
typedef struct mok_workspace mok_workspace; /* one rank's memory for layers of one shape */
typedef struct mok_context mok_context;     /* what a forward leaves for its backward */

/* As mok::LayerShape. */
typedef struct mok_layer_shape {
  size_t struct_size;
  int64_t max_tokens;          /* most tokens that a rank brings to one call */
  int64_t hidden;              /* H */
  int64_t intermediate;        /* I */
  int64_t shared_intermediate; /* S: width of the shared expert, 0 = none */
  int64_t experts;             /* E, over all ranks */
  int64_t topk;                /* k */
  int32_t output_gate;         /* 1: shared output times sigmoid(x . shared_output_gate); else 0 */
  float swiglu_limit;          /* L > 0: gate <= L, up in [-L, L]; 0 = no limit */
} mok_layer_shape;

/* As mok::Options. No field but engine changes a bit of a result. */
typedef struct mok_options {
  size_t struct_size;
  int32_t dispatch;         /* MOK_DISPATCH_...: x rows */
  int32_t combine;          /* MOK_COMBINE_...: y rows */
  int32_t dy_dispatch;      /* MOK_DISPATCH_...: dY rows in the backward */
  int32_t dx_combine;       /* MOK_COMBINE_...: dX rows in the backward */
  int64_t ring_rows;        /* rows of each ring, a multiple of 64; 0 = default */
  int64_t saved_rows;       /* rows a context keeps, a multiple of 64; -1 = default */
  int32_t save;             /* MOK_SAVE_... */
  int32_t workers;          /* CPU threads a rank; 0 = as many as the machine allows */
  const char* engine;       /* "scalar", "avx2", "avx512_bf16"; NULL or "auto" = the best here */
  int64_t join_deadline_ms; /* longest wait for a rank to enter a call */
  int64_t progress_deadline_ms; /* longest silence of a rank inside a call */
} mok_options;
#define MOK_OPTIONS_INIT \
  { sizeof(mok_options), 0, 0, 0, 0, 0, -1, 0, 0, NULL, 600000, 10000 }

/* One matrix per local expert, last index contiguous: base + expert * expert_stride, or one pointer
 * per expert in `table`. Strides in elements. */
typedef struct mok_expert_matrix {
  const uint16_t* base;
  int64_t expert_stride;
  int64_t row_stride;
  const uint16_t* const* table;
} mok_expert_matrix;

/* The same for gradients: uint16_t (bf16) or float elements, as the kind says. */
typedef struct mok_grad_matrix {
  void* base;
  int64_t expert_stride;
  int64_t row_stride;
  void* const* table;
} mok_grad_matrix;

/* gate, up: [local E][I, H]; down: [local E][H, I]; shared: [S, H], [S, H], [H, S], zero where
 * there is no shared expert; shared_output_gate: [H] or NULL. */
typedef struct mok_weights {
  size_t struct_size;
  mok_expert_matrix gate, up, down;
  mok_expert_matrix shared_gate, shared_up, shared_down;
  const uint16_t* shared_output_gate;
} mok_weights;

/* Shapes as mok_weights; the shared ones are sums over this rank's tokens only. */
typedef struct mok_weight_grads {
  size_t struct_size;
  int32_t kind;        /* MOK_GRAD_...: gate, up, down */
  int32_t shared_kind; /* MOK_GRAD_...: the shared expert and its output gate */
  mok_grad_matrix gate, up, down;
  mok_grad_matrix shared_gate, shared_up, shared_down;
  void* shared_output_gate;
} mok_weight_grads;

/* ids[tokens, k], -1 = no route, in one of two widths; weights[tokens, k]. */
typedef struct mok_routing {
  const int32_t* ids;
  const int64_t* ids64; /* used when ids is NULL */
  const float* weights;
} mok_routing;

typedef struct mok_forward_args {
  size_t struct_size;
  int64_t tokens;    /* 0 .. max_tokens, may differ between ranks */
  const uint16_t* x; /* [tokens, H] */
  mok_routing routing;
  const mok_weights* weights;
  uint16_t* y;          /* [tokens, H], overwritten */
  mok_context* context; /* NULL: inference, nothing is kept */
} mok_forward_args;

typedef struct mok_backward_args {
  size_t struct_size;
  const mok_context* context; /* of the forward */
  const uint16_t* x;          /* [tokens, H], as in the forward */
  const uint16_t* dy;         /* [tokens, H] */
  const mok_weights* weights; /* as in the forward */
  uint16_t* dx;               /* [tokens, H], overwritten; the router's share is not included */
  float* d_router;            /* [tokens, k], overwritten: dL/d(router weight), 0 for id -1 */
  const mok_weight_grads* grads;
} mok_backward_args;

typedef struct mok_recompute_args {
  size_t struct_size;
  mok_context* context;
  const uint16_t* x;          /* [tokens, H], as in the forward */
  const mok_weights* weights; /* as in the forward */
} mok_recompute_args;

typedef struct mok_transfer_counts {
  uint64_t bytes;         /* payload that crossed ranks */
  uint64_t remote_reads;  /* rows that this rank read from others */
  uint64_t remote_writes; /* rows that this rank wrote to others */
} mok_transfer_counts;

/* What one call of one rank did. */
typedef struct mok_call_report {
  size_t struct_size;
  uint64_t epoch; /* number of the call */
  int64_t rows;   /* (token, slot) pairs computed here */
  int64_t padded_rows;
  int64_t phases;
  int64_t ring_turns;
  int64_t replayed_rows; /* backward: rows beyond the context, computed again */
  mok_transfer_counts dispatch, combine, dy_dispatch, dx_combine;
  double route_ms;
  double run_ms;
} mok_call_report;

/* "0.1.0", static. Any thread, any time. */
const char* mok_version(void);

/* A group of num_ranks (1 .. 65535) ranks in this process. Fills worlds[0 .. num_ranks-1], one per
 * rank, each destroyed by itself. Workspaces do not need their world any more once they are made.
 */
mok_status mok_world_create_local(int32_t num_ranks, mok_world** worlds);
void mok_world_destroy(mok_world* world);

/* Bytes of one rank's workspace and of one context, from sizes alone: nothing is allocated. options
 * may be NULL (defaults), either output too. Any thread, any time. */
mok_status mok_workspace_bytes(const mok_layer_shape* shape, const mok_options* options,
                               int32_t num_ranks, uint64_t* workspace_bytes,
                               uint64_t* context_bytes);

/* Allocates and starts the rank's worker threads; waits for no other rank. All ranks of a group
 * make their workspaces in the same order with equal shape and options, else their first call
 * fails. A workspace must not be destroyed while a call of it runs; that others still run theirs is
 * no harm. */
mok_status mok_workspace_create(const mok_world* world, const mok_layer_shape* shape,
                                const mok_options* options, mok_workspace** workspace);
void mok_workspace_destroy(mok_workspace* workspace);

/* A context for the calls of this workspace or of another one of the same rank, shape and options.
 * It may outlive the workspace, be filled again, and be destroyed with or without a backward. */
mok_status mok_context_create(const mok_workspace* workspace, mok_context** context);
void mok_context_destroy(mok_context* context);
/* Frees the saved rows and keeps the routing: a backward then computes all rows again, or
 * mok_recompute fills the context first. NULL is allowed. */
void mok_context_release_saved(mok_context* context);

/* One layer forward, its backward, and the recomputation of a context. Calls of the group: every
 * rank makes the same calls in the same order, with matching contexts, and each returns when the
 * rank's results are there. Inputs must not change until then. report may be NULL; else its
 * struct_size is set. A failure inside a call leaves its outputs undefined and poisons the
 * workspaces of all ranks; docs/errors.md says which failures do. */
mok_status mok_forward(mok_workspace* workspace, const mok_forward_args* args,
                       mok_call_report* report);
mok_status mok_backward(mok_workspace* workspace, const mok_backward_args* args,
                        mok_call_report* report);
mok_status mok_recompute(mok_workspace* workspace, const mok_recompute_args* args,
                         mok_call_report* report);

#ifdef __cplusplus
}
#endif

#endif /* MOK_H */
