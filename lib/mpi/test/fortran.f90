! fortran: the collectives by MPICH's Fortran bindings, which call MPI's C functions; constants of
! Fortran's own (MPI_IN_PLACE, MPI_BOTTOM), types and operations that C has not.
program fortran
   use mpi
   implicit none
   integer :: rank, ranks, error, wrong, all, i
   integer, allocatable :: words(:)
   double precision :: sums(1000)
   complex :: z
   logical :: yes, both
   call MPI_Init(error)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
   wrong = 0
   allocate (words(ranks))
   words = -1
   words(rank + 1) = rank
   call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, words, 1, MPI_INTEGER, MPI_COMM_WORLD, error)
   do i = 1, ranks
      if (words(i) /= i - 1) wrong = wrong + 1
   end do
   sums = rank + 0.5d0
   call MPI_Allreduce(MPI_IN_PLACE, sums, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
   if (any(sums /= ranks * 0.5d0 + ranks * (ranks - 1) / 2)) wrong = wrong + 1
   z = cmplx(rank, 1)
   call MPI_Bcast(z, 1, MPI_COMPLEX, ranks - 1, MPI_COMM_WORLD, error)
   if (z /= cmplx(ranks - 1, 1)) wrong = wrong + 1
   yes = rank /= 1
   call MPI_Reduce(yes, both, 1, MPI_LOGICAL, MPI_LAND, 0, MPI_COMM_WORLD, error)
   if (rank == 0 .and. both) wrong = wrong + 1
   call MPI_Barrier(MPI_COMM_WORLD, error)
   call MPI_Allreduce(wrong, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
   if (rank == 0) print '(a, i0, a)', 'fortran: ', all, ' wrong'
   call MPI_Finalize(error)
   if (all /= 0) stop 1
end program
