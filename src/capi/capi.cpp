// capi.cpp: the functions of mok.h over the C++ API; no exception leaves one.
#include <exception>
#include <memory>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "capi/convert.hpp"
#include "layer/impl.hpp"

struct mok_world {
  mok::World value;
};
struct mok_workspace {
  mok::Workspace value;
};
struct mok_context {
  mok::Context value;
};

namespace {

using mok::Result;
using mok::Status;
namespace capi = mok::capi;

// Runs body() -> Status. The library reports by Status; what can still be thrown is the standard
// library's: no memory, no thread.
template <class Body>
mok_status guarded(Body&& body) noexcept {
  try {
    return capi::write(std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    return capi::write(MOK_ENVIRONMENT, "environment", "memory: the machine has no more");
  } catch (const std::system_error& error) {
    return capi::write(MOK_ENVIRONMENT, "environment", error.what());
  } catch (const std::exception& error) {
    return capi::write(MOK_INTERNAL, "internal", error.what());
  } catch (...) {
    return capi::write(MOK_INTERNAL, "internal", "an exception of unknown type");
  }
}

// A call that an exception has left in its middle: the next one must not go on from there, and the other
// ranks, once their deadline has passed, get this reason.
struct PoisonUnlessDone {
  mok::Workspace& workspace;
  int exceptions = std::uncaught_exceptions();

  ~PoisonUnlessDone() {
    if (std::uncaught_exceptions() == exceptions) {
      return;
    }
    try {
      workspace.impl().set->fail(Status::environment("call", "", "the machine ran out of memory"));
    } catch (...) {  // not even memory for the reason: the ranks still have their deadlines
    }
  }
};

// The common course of forward, backward and recompute.
template <class Args, class CArgs, class Run>
mok_status run_call(mok_workspace* workspace, const CArgs* args, mok_call_report* report, Run run) {
  return guarded([&]() -> Status {
    if (workspace == nullptr) {
      return capi::missing("workspace");
    }
    if (Status status = capi::check_report(report); !status.ok()) {
      return status;
    }
    Args call_args;
    if (Status status = capi::read(args, call_args); !status.ok()) {
      return status;
    }
    call_args.context = args->context != nullptr ? &args->context->value : nullptr;
    const PoisonUnlessDone poison{workspace->value};
    const Result<mok::CallReport> done = run(workspace->value, call_args);
    if (!done) {
      return done.error();
    }
    capi::write(*done, report);
    return {};
  });
}

}  // namespace

const char* mok_version(void) {
  return MOK_VERSION;
}

mok_status mok_world_create_local(std::int32_t num_ranks, mok_world** worlds) {
  return guarded([&]() -> Status {
    if (worlds == nullptr) {
      return capi::missing("worlds");
    }
    Result<std::vector<mok::World>> made = mok::World::local(num_ranks);
    if (!made) {
      return made.error();
    }
    std::vector<std::unique_ptr<mok_world>> handles;
    for (mok::World& world : *made) {
      handles.push_back(std::make_unique<mok_world>(mok_world{std::move(world)}));
    }
    for (std::unique_ptr<mok_world>& handle : handles) {
      *worlds++ = handle.release();
    }
    return {};
  });
}

void mok_world_destroy(mok_world* world) {
  delete world;
}

mok_status mok_workspace_bytes(const mok_layer_shape* shape, const mok_options* options,
                               std::int32_t num_ranks, std::uint64_t* workspace_bytes,
                               std::uint64_t* context_bytes) {
  return guarded([&]() -> Status {
    mok::LayerShape layer;
    mok::Options how;
    if (Status status = capi::read(shape, layer); !status.ok()) {
      return status;
    }
    if (Status status = capi::read(options, how); !status.ok()) {
      return status;
    }
    const Result<mok::MemoryFormula> formula = mok::memory_formula(layer, how, num_ranks);
    if (!formula) {
      return formula.error();
    }
    if (workspace_bytes != nullptr) {
      *workspace_bytes = formula->workspace_bytes;
    }
    if (context_bytes != nullptr) {
      *context_bytes = formula->context_bytes;
    }
    return {};
  });
}

mok_status mok_workspace_create(const mok_world* world, const mok_layer_shape* shape,
                                const mok_options* options, mok_workspace** workspace) {
  return guarded([&]() -> Status {
    if (world == nullptr) {
      return capi::missing("world");
    }
    if (workspace == nullptr) {
      return capi::missing("workspace");
    }
    mok::LayerShape layer;
    mok::Options how;
    if (Status status = capi::read(shape, layer); !status.ok()) {
      return status;
    }
    if (Status status = capi::read(options, how); !status.ok()) {
      return status;
    }
    Result<mok::Workspace> made = mok::Workspace::create(world->value, layer, how);
    if (!made) {
      return made.error();
    }
    *workspace = new mok_workspace{std::move(*made)};
    return {};
  });
}

void mok_workspace_destroy(mok_workspace* workspace) {
  delete workspace;
}

mok_status mok_context_create(const mok_workspace* workspace, mok_context** context) {
  return guarded([&]() -> Status {
    if (workspace == nullptr) {
      return capi::missing("workspace");
    }
    if (context == nullptr) {
      return capi::missing("context");
    }
    Result<mok::Context> made = mok::Context::create(workspace->value);
    if (!made) {
      return made.error();
    }
    *context = new mok_context{std::move(*made)};
    return {};
  });
}

void mok_context_destroy(mok_context* context) {
  delete context;
}

void mok_context_release_saved(mok_context* context) {
  if (context != nullptr) {
    mok::release_saved(context->value);
  }
}

mok_status mok_forward(mok_workspace* workspace, const mok_forward_args* args,
                       mok_call_report* report) {
  return run_call<mok::ForwardArgs>(workspace, args, report, mok::forward);
}

mok_status mok_backward(mok_workspace* workspace, const mok_backward_args* args,
                        mok_call_report* report) {
  return run_call<mok::BackwardArgs>(workspace, args, report, mok::backward);
}

mok_status mok_recompute(mok_workspace* workspace, const mok_recompute_args* args,
                         mok_call_report* report) {
  return run_call<mok::RecomputeArgs>(workspace, args, report, mok::recompute);
}
