// host_device.hpp: the one macro that lets a header compile with g++ alone and with nvcc.
#pragma once

#if defined(__CUDACC__)
#define MOK_HD __host__ __device__ inline
#define MOK_HD_MEMBER __host__ __device__
#else
#define MOK_HD inline
#define MOK_HD_MEMBER
#endif
