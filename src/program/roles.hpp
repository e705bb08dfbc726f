// roles.hpp: the five role loops of a CTA, the same source for GPU warps, CPU threads and fibers.
#pragma once

#include "program/comm_role.hpp"
#include "program/role_types.hpp"
#include "program/scheduler_role.hpp"
#include "program/tile_roles.hpp"
